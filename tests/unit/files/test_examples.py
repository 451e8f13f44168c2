"""Every example in the repository is a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.files.job import load_spec
from dovetail.files.mining import MineOverrides, load_mining

FOLDER = Path(__file__).parents[3] / "examples"
MINED = sorted(FOLDER.glob("mine-*.yaml"))
CODESIGNED = sorted(FOLDER.glob("codesign-*.yaml"))
EXAMPLES = sorted({*FOLDER.glob("*.yaml")} - {*MINED, *CODESIGNED})


def test_there_are_examples():
    assert "llama3-70b-512xh100" in [file.stem for file in EXAMPLES]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_read_and_its_plan_uses_every_device(file):
    job = load_spec(file)
    assert job.name == file.stem
    assert job.plan.num_devices == job.cluster.num_devices
    size = file.stem.rpartition("-")[2].partition("x")[0]
    assert not size.isdigit() or int(size) == job.cluster.num_devices, "the file's name says another size"


@pytest.mark.parametrize("file", MINED, ids=lambda file: file.stem)
def test_an_example_of_mining_is_read_and_fits_the_chip_it_is_built_on(file):
    spec = load_mining(str(file), MineOverrides())
    is_planned = spec.stages.num_devices > 0  # then the planner cuts what one device need not hold
    assert is_planned or all(task.memory(spec.base).fits for task in spec.tasks)


@pytest.mark.parametrize("file", CODESIGNED, ids=lambda file: file.stem)
def test_an_example_of_codesign_is_read_and_leaves_something_to_choose(file):
    spec = load_codesign(str(file), CodesignOverrides())
    assert spec.name
    assert spec.space.num_points > 1
