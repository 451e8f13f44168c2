"""Every published count of failures names its source, and is of devices that break neither daily nor never."""

from __future__ import annotations

import re

import pytest

from dovetail.hardware.failures import failures
from dovetail.units import SECONDS_PER_DAY, SECONDS_PER_HOUR

EVERY_COUNT = pytest.mark.parametrize("name", failures.names())


@EVERY_COUNT
def test_a_count_says_where_it_was_published(name):
    assert re.search(r"arXiv:\d{4}\.\d{5}", failures[name]().source)


@EVERY_COUNT
def test_a_device_stops_its_job_once_in_months_to_decades(name):
    device_s = failures[name]().among_s(1)
    assert 100 * SECONDS_PER_DAY < device_s < 10_000 * SECONDS_PER_DAY


def test_metas_clusters_fail_as_their_study_projects():
    """arXiv:2410.21680: 1.8 hours between failures of 16,384 GPUs, 0.23 of 131,072."""
    rsc = failures["meta-rsc-1"]()
    assert rsc.among_s(16384) == pytest.approx(1.8 * SECONDS_PER_HOUR, rel=0.01)
    assert rsc.among_s(131072) == pytest.approx(0.23 * SECONDS_PER_HOUR, rel=0.03)
