"""Did any number move? Every example's answer, to ten digits."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.evaluate import Outcome, evaluate
from dovetail.files.job import load_spec
from dovetail.report.figures import record_of
from dovetail.report.outcome import outcome_figures

EXAMPLES = sorted(
    file for file in (Path(__file__).resolve().parents[2] / "examples").glob("*.yaml") if "plan:" in file.read_text()
)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_answer_to_an_example_is_what_it_was(file: Path, golden) -> None:
    job = load_spec(str(file))
    outcome = evaluate(job.workload, job.cluster, job.plan)
    assert isinstance(outcome, Outcome)
    whole = record_of(outcome_figures(outcome))
    kept = ("step_s", "samples_per_s", "mfu_frac", "hfu_frac", "energy_j", "time", "memory", "elasticities")
    golden(file.stem, {key: whole[key] for key in kept})
