"""Training logs: every kind is read from its example, with the lines that count and those that cannot be read known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import REPOSITORY, Bar
from dovetail.api.jobs import JobRequest
from dovetail.api.logged_jobs import compared_log
from dovetail.files.profiles.profile import load_profile
from dovetail.files.training_logs.loading import load_training_log

ISSUE = 25
LOGS = REPOSITORY / "examples" / "logs"
TRACE = REPOSITORY / "examples" / "llama-2-layers-h200.json.gz"
CLUSTER = "dgx-h100"
DECODER = {"model": "llama3-8b", "cluster": f"{CLUSTER}x8", "seq": 2048, "plan": "zero3"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An example, what was written into it, and what must be said beside it for its job to be known."""

    file: str
    num_steps: int
    num_bad: int
    num_steady: int
    job: dict[str, object]


KNOWN = {  # as the examples were written: examples/logs/README.md
    "Megatron-LM": Known(
        file="megatron-llama3-70b-512xh100.log", num_steps=44, num_bad=2, num_steady=32, job={"cluster": CLUSTER}
    ),
    "TorchTitan": Known(
        file="torchtitan-llama3-8b-64xh100.log", num_steps=21, num_bad=1, num_steady=17, job={"cluster": CLUSTER}
    ),
    "Lightning, metrics.csv": Known(
        file="lightning-llama3-8b-8xh100-metrics.csv",
        num_steps=57,
        num_bad=2,
        num_steady=54,
        job=DECODER | {"global_batch": 32},
    ),
    "Lightning, console": Known(
        file="lightning-llama3-8b-8xh100.log", num_steps=6, num_bad=1, num_steady=4, job=DECODER | {"global_batch": 32}
    ),
    "Hugging Face Trainer, console": Known(
        file="huggingface-llama3-8b-8xh100.log", num_steps=41, num_bad=2, num_steady=38, job=DECODER
    ),
    "Hugging Face Trainer, trainer_state.json": Known(
        file="huggingface-llama3-8b/trainer_state.json",
        num_steps=1,
        num_bad=0,
        num_steady=1,
        job=DECODER | {"global_batch": 128},
    ),
    "DeepSpeed": Known(
        file="deepspeed-llama3-8b-64xh100.log",
        num_steps=19,
        num_bad=1,
        num_steady=17,
        job={"model": "llama3-8b", "cluster": CLUSTER, "seq": 4096},
    ),
}


def bars() -> Iterator[Bar]:
    for name, known in KNOWN.items():
        yield _read(name, LOGS / known.file, known)
    yield _traced()


def _read(name: str, file: Path, known: Known) -> Bar:
    log = load_training_log(file)
    run = compared_log(str(file), JobRequest(**known.job))  # type: ignore[arg-type]  # keys are its fields
    found = (len(log.steps), len(run.measured.steady), len(log.bad_lines))
    wanted = (known.num_steps, known.num_steady, known.num_bad)
    return Bar(
        name=f"log of {name}",
        issue=ISSUE,
        bar="{} lines of steps, {} steady, {} not read".format(*wanted),
        measured="{}, {}, {}".format(*found),
        holds=found == wanted,
    )


def _traced() -> Bar:
    """The one step of the trace that ships lasts as long as the profiler's own mark of it."""
    [step] = load_profile(TRACE).steps
    marked_s = 0.016388965  # dur of ProfilerStep#1 in the trace
    return Bar(
        name="whole steps of a PyTorch trace",
        issue=ISSUE,
        bar="1 step of 16.389 ms",
        measured=f"1 step of {1e3 * step.step_s:.3f} ms, busy {1e3 * step.compute_s:.3f} ms",
        holds=abs(step.step_s / marked_s - 1) < 1e-6,
    )
