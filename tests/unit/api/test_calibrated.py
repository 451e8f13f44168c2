"""Which cluster a calibration begins with, by what logs call their GPUs."""

from __future__ import annotations

import contextlib

import pytest

from dovetail.api.calibrated import calibrated_library
from dovetail.errors import InvalidInput
from dovetail.files.cluster import cluster_of
from dovetail.files.entry import spoken
from tests.collective_logs import COLUMNS, END, NAMED, ROWS, START, devices


def fitted(tmp_path, product, cluster=""):
    log, out = tmp_path / "log.txt", tmp_path / "out.yaml"
    log.write_text(NAMED + START + devices(product=product) + COLUMNS + "".join(ROWS[:3]) + END, encoding="utf-8")
    report = calibrated_library(
        [str(log)], cluster, "", str(out), is_forced=True, announce=lambda _: contextlib.nullcontext()
    )
    return report, out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("product", "base"),
    [
        ("NVIDIA A100-SXM4-80GB", "dgx-a100"),
        ("NVIDIA H100 80GB HBM3", "dgx-h100"),
        ("NVIDIA B300 SXM6 AC", "dgx-b300"),
        ("NVIDIA GB200", "gb200-nvl72"),
        ("gb200-nvl72", "gb200-nvl72"),
    ],
)
def test_a_log_is_of_the_cluster_with_its_gpus(tmp_path, product, base):
    report, text = fitted(tmp_path, product)
    assert f"base: '{base}'\n" in text
    assert not any("rows are of" in note for note in report.notes)


@pytest.mark.parametrize("product", ["NVIDIA H100 NVL", "NVIDIA H100 PCIe", "NVIDIA GH200 480GB"])
def test_cards_and_others_of_a_like_name_are_asked_for_their_cluster(tmp_path, product):
    with pytest.raises(InvalidInput, match="no catalogue cluster is of platform"):
        fitted(tmp_path, product)


def test_another_chip_than_the_log_names_is_told(tmp_path):
    report, _ = fitted(tmp_path, "NVIDIA H20", "dgx-h100")
    assert "the rows are of NVIDIA H20, and dgx-h100 has h100-sxm" in report.notes


def test_a_cluster_without_such_a_library_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="by XLA on ICI"):
        fitted(tmp_path, "NVIDIA H100 80GB HBM3", "tpu-v4-pod")


def test_a_file_begun_at_a_sized_name_takes_other_sizes(tmp_path):
    _, text = fitted(tmp_path, "NVIDIA H100 80GB HBM3", "h100x16")
    assert text.splitlines()[1:3] == ["base: 'dgx-h100'", "devices: 16  # of the largest log; any other will do"]
    assert cluster_of(spoken(str(tmp_path / "out.yaml")), 64).num_devices == 64
