"""What `calibrate --runs` says of a log that is none."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from dovetail.api.calibrated import calibrated_cluster
from dovetail.api.jobs import JobRequest
from dovetail.errors import InvalidInput


@pytest.mark.parametrize("job", [JobRequest(), JobRequest(model="llama3-8b")])
def test_a_log_without_steps_is_refused_as_one_whatever_is_said_of_its_job(tmp_path: Path, job: JobRequest) -> None:
    log = tmp_path / "junk.log"
    log.write_text("hello world\nloss 3\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"no line of it is a step of a training log .*, and it is no table of runs"):
        calibrated_cluster([str(log)], "", is_forced=False, announce=lambda _: nullcontext(), job=job)
