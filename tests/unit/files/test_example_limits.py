"""The gain that an example prints is over a chip that the example's own limits allow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail.api.joint import question_of
from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.files.mining import MineOverrides, load_mining
from dovetail.hardware.catalog import chips
from dovetail.hardware.template import design_of
from dovetail.search.codesign.answers import base_question
from dovetail.search.codesign.systems import built_systems
from dovetail.search.designs import silicon_of
from dovetail.search.metrics import metrics

EXAMPLES = Path(__file__).parents[3] / "examples"
CODESIGNED = sorted(EXAMPLES.glob("codesign-*.yaml"))
MINED = sorted(EXAMPLES.glob("mine-*.yaml"))


def test_there_are_examples():
    assert CODESIGNED
    assert MINED


@pytest.mark.parametrize("spec", [*CODESIGNED, "gpt2-1.5b"], ids=lambda spec: getattr(spec, "stem", spec))
def test_the_base_of_a_joint_search_keeps_its_limits(spec):
    """Also of the model that `dovetail codesign` answers without a word."""
    said = load_codesign(str(spec), CodesignOverrides())
    own = base_question(question_of(said, metrics["throughput"]), max(said.num_devices))
    system = {knob.name: np.array([float(value) for value in knob.values]) for knob in own.space.knobs}
    assert all(len(column) == 1 for column in system.values())
    shares = said.budget.shares(built_systems(said.base, system), system["num_devices"])
    assert shares
    assert {name: float(share[0]) for name, share in shares.items() if share[0] > 1} == {}


@pytest.mark.parametrize("spec", MINED, ids=lambda spec: spec.stem)
def test_the_base_of_a_mined_chip_keeps_its_limits(spec):
    said = load_mining(str(spec), MineOverrides())
    silicon = silicon_of(said.base, [design_of(said.base)])
    assert silicon.area_mm2[0] <= said.limits.area_mm2
    assert silicon.power_w[0] <= said.limits.power_w


@pytest.mark.parametrize(("template", "chip"), [("tpuv2-like", "tpu-v2"), ("tpuv4-like", "tpu-v4")])
def test_a_template_has_the_lanes_and_arrays_of_the_chip_it_is_like(template, chip):
    like, real = chips[template](), chips[chip]()
    assert (like.vector.num_units, like.vector.num_lanes) == (real.vector.num_units, real.vector.num_lanes) == (2, 1024)
    assert like.tensor.num_units == real.tensor.num_units
    assert (like.tensor.num_rows, like.tensor.num_cols) == (real.tensor.num_rows, real.tensor.num_cols)


@pytest.mark.parametrize("name", ["wham-tpuv2", "phaze-tpuv4", "nest-tpuv4"])
def test_the_baselines_of_papers_keep_their_published_lanes(name):
    vector = chips[name]().vector
    assert (vector.num_units, vector.num_lanes) == (2, 128)
