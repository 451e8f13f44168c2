"""Every decision that a plan can take is in the file it is written to."""

from __future__ import annotations

from dataclasses import fields

import pytest
import yaml

from dovetail.files.plan_text import plan_text
from dovetail.parallel.plan import Overlap, Plan
from dovetail.parallel.recipes import plans


@pytest.mark.parametrize("name", plans.names())
def test_no_decision_is_left_out_of_a_plan_file(name):
    plan = plans[name].plan
    written = yaml.safe_load(plan_text(plan))
    for one in fields(Plan):
        value = getattr(plan, one.name)
        if one.name == "overlap":
            value = {part.name: getattr(value, part.name) for part in fields(Overlap)}
        assert written[one.name] == (list(value) if isinstance(value, tuple) else value)
