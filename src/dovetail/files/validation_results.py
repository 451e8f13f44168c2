"""Results that `dovetail validate --json` wrote, read back: for measurements that may not travel with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from dovetail.accuracy.bars import STATISTICS
from dovetail.errors import did_you_mean
from dovetail.files.entry import opened
from dovetail.files.profiles.kineto import EVENTS
from dovetail.files.result_checks import check_agrees
from dovetail.files.schema import Number, Shape, Text, Whole, checked
from dovetail.files.text import quoted


def _statistic(name: str) -> str:
    if name not in STATISTICS:
        message = f"a score has no statistic named {quoted(name)}{did_you_mean(name[:100], STATISTICS)}"
        raise PydanticCustomError("message", "{message}", {"message": message})
    return name


class _Bar(Shape):
    statistic: Annotated[Text, AfterValidator(_statistic)]
    limit_frac: Number
    measured_frac: Number
    holds: bool


class _Row(Shape):
    kind: Text
    what: str  # empty where a kind says it all, as a chip does
    measured: Number
    predicted: Number
    error_frac: Number


class _Ranking(Shape):
    num_ranked: Whole
    spearman: Number
    num_picked: Whole
    regret_frac: Number
    worst_regret_frac: Number


class _OneScalar(Shape):
    num_rows: Whole
    mape_frac: Number
    low_frac: Number
    high_frac: Number


class _Score(Shape):
    kind: str
    num_rows: Whole
    mape_frac: Number
    median_frac: Number
    p90_frac: Number
    worst_frac: Number
    bias_frac: Number
    bars: list[_Bar]
    worst: list[_Row]
    ranking: _Ranking | None = None
    one_scalar: _OneScalar | None = None


class _Skipped(Shape):
    what: Text
    num_rows: Whole


class _Decided(Shape):
    kind: str
    num_ran: Whole
    num_false: Whole
    num_failed: Whole
    num_missed: Whole


class _Beside(Shape):
    peer: Text
    what: Text
    least_frac: Number
    most_frac: Number
    num_rows: Whole
    mape_frac: Number


class _Choice(Shape):
    kind: str
    statistic: Text
    limit: Number
    measured: Number
    num_judged: Whole
    holds: bool


class _Unjudged(Shape):
    kind: str
    statistic: Text
    limit: Number


class _Peer(Shape):
    peer: Text
    what: Text
    least_frac: Number
    most_frac: Number


class _Coverage(Shape):
    left_out: Text
    num_rows: Whole
    covered_frac: Number
    width_frac: Number
    least_frac: Number
    most_frac: Number
    holds: bool


class _Set(Shape):
    old_keys: ClassVar = {
        "decided": "memory_verdicts",
        "beside": "peers",
        "unjudged": "not_judged",
        "peers_alone": "peers_without_rows",
    }
    set: Text
    chip: str
    unit: Text
    scores: list[_Score]
    skipped: list[_Skipped]
    memory_verdicts: list[_Decided] = Field(default_factory=list)
    peers: list[_Beside] = Field(default_factory=list)
    choices: list[_Choice] = Field(default_factory=list)
    not_judged: list[_Unjudged] = Field(default_factory=list)
    peers_without_rows: list[_Peer] = Field(default_factory=list)


class _ProfiledRow(Shape):
    kind: Text
    phase: Text
    dtype: Text
    extents: list[int]
    work_frac: Number
    name: str
    stream: str
    num_runs: Whole
    measured_s: Number
    predicted_s: Number
    error_frac: Number


class _LeftOut(Shape):
    name: str
    why: Text
    num_runs: Whole
    total_s: Number


class _Exchange(Shape):
    name: str
    message_bytes: Number
    num_ranks: Whole
    num_runs: Whole
    time_s: Number


class _Profile(Shape):
    old_keys: ClassVar = {"is_of_host": "is_host_time", "exchanges": "collectives"}
    source: Text
    device: str
    chip: Text
    num_steps: Whole
    num_ranks: Whole
    is_host_time: bool
    busy_s: Number
    measured_s: Number
    predicted_s: Number
    compared_frac: Number
    median_frac: Number
    p90_frac: Number
    rows: list[_ProfiledRow]
    left_out: list[_LeftOut]
    collectives: list[_Exchange]


class _LoggedStep(Shape):
    line: Whole
    step: Whole
    num_steps: Whole
    num_ranks: Whole
    num_restarts: Whole  # before it
    measured_s: Number
    error_frac: Number
    reasons: list[Text]  # for which it is set apart


class _LoggedPeak(Shape):
    what: Text
    measured_bytes: Number
    predicted_bytes: Number


class _StepPart(Shape):
    what: Text
    measured_s: Number
    predicted_s: Number


class _SkippedLine(Shape):
    line: Whole
    why: Text


class _Log(Shape):
    source: Text
    framework: Text
    model: Text
    chip: Text
    num_devices: Whole
    global_batch: Whole
    seq: Whole
    plan: Text
    num_lines: Whole
    num_step_lines: Whole
    num_steady: Whole
    num_skipped_lines: Whole
    num_restarts: Whole
    num_checkpoints: Whole
    num_evaluations: Whole
    is_run_mean: bool
    measured_s: Number
    lower_quartile_s: Number
    upper_quartile_s: Number
    predicted_s: Number
    error_frac: Number
    interval_s: list[Number]
    evidence: Text
    need_bytes: Number
    limit_bytes: Number
    peaks: list[_LoggedPeak]
    times: list[_StepPart]
    steps: list[_LoggedStep]
    skipped_lines: list[_SkippedLine]
    notes: list[Text]


class _TracedStep(Shape):
    step: Whole
    step_s: Number
    compute_s: Number
    collective_s: Number
    exposed_s: Number
    idle_s: Number


class _Trace(Shape):
    source: Text
    steps: list[_TracedStep]


class _Machine(Shape):
    num_cores: Whole
    processor: str
    python: Text
    numpy: Text
    date: Text


class _PeerSpeed(Shape):
    peer: Text
    least_s: Number
    most_s: Number
    times: Number
    source: Text


class _Speed(Shape):
    old_keys: ClassVar = {"noun": "item", "each_s": "per_item_s"}
    operation: Text
    what: Text
    item: str
    per_item_s: Number
    num_runs: Whole
    peers: list[_PeerSpeed]


class _Gap(Shape):
    what: Text
    num: Whole
    num_best: Whole
    mean_frac: Number
    worst_frac: Number
    source: Text


class _Untried(Shape):
    what: Text
    why: Text


class _Results(Shape):
    old_keys: ClassVar = {"untried": "not_measured"}
    schema_version: Whole = 1  # of its keys; 0.1 did not say it
    holds: bool
    sets: list[_Set]
    notes: list[Text]
    profiles: list[_Profile] = Field(default_factory=list)
    logs: list[_Log] = Field(default_factory=list)
    traces: list[_Trace] = Field(default_factory=list)  # read and not shown again
    coverage: list[_Coverage] = Field(default_factory=list)
    machine: _Machine | None = None  # with the three below: of --all, read and not shown again
    speeds: list[_Speed] = Field(default_factory=list)
    gaps: list[_Gap] = Field(default_factory=list)
    not_measured: list[_Untried] = Field(default_factory=list)
    recorded: str = ""
    commit: str = ""


def load_results(file: Path) -> dict[str, Any]:
    """The results in `file`, with a note of when they were recorded where the file says so."""
    entry = opened(file)
    if entry.has(EVENTS):
        raise entry.refused("this is a trace of a profiler, not results of --json; pass --profile FILE")
    results: _Results = checked(entry, _Results, hint="; these are no results of dovetail validate --json")
    plain = results.model_dump(exclude_none=True)
    check_agrees(plain, entry)
    if results.recorded:
        names = ", ".join(one["set"] for one in plain["sets"])
        at = f" at commit {results.commit}" if results.commit else ""
        plain["notes"].append(f"{names}: recorded on {results.recorded}{at}, on measurements that are not shipped")
    return plain
