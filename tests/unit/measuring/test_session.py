"""A run of measurements: rows that stand are skipped, rows that fail are counted, tables are those that validate reads.

The CPU stands in for a GPU: what is timed here is really run, at sizes of a few elements.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.sets import format_of
from dovetail.accuracy.sets import sets as formats
from dovetail.errors import InvalidInput
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.measuring import session
from dovetail.measuring.row_files import Key, RowFile
from dovetail.measuring.session import Standing, chosen_tables, measured, write_cases
from dovetail.measuring.tables import MeasuredRow, MeasuredTable, one_by_one, reason, tables
from dovetail.measuring.torch_gpu import Gpu

torch = pytest.importorskip("torch")

# The table of the package, or of the reference data, whose columns each has.
LIKE = {
    "gemm_bf16": "gemm_random", "gemm_fp16": "gemm_random", "gemm_tf32": "gemm_random", "gemm_fp32": "gemm_random",
    "gemm_fp8": "gemm_fp8", "bmm": "bmm", "attention": "attention", "vector": "vector", "ceilings": "ceilings",
    "convolution": "conv_resnet50", "eager_ops": "eager_ops", "power": "power",
}  # fmt: skip
STEPS = (
    "model,batch,seq,mode,recompute,amp,params,attn,iter_ms,iter_ms_min,fwd_ms,peak_gib,reserved_gib"  # hf_steps.csv
)
NCCL = "system,nccl_version,collective,num_gpus,size_bytes,time_us"  # nccl_measured.csv
OTHERS = {"steps": ("recorded-steps", STEPS), "collectives": ("collectives", NCCL)}


NCCL_LIBRARY = SimpleNamespace(version=lambda: (2, 28, 9))


@dataclass(frozen=True, kw_only=True)
class Card:
    """A GPU that nothing is run on."""

    name: str = "NVIDIA H200"
    num_gpus: int = 8
    is_cpu: bool = False
    is_amd: bool = False
    capability: tuple[int, int] = (9, 0)
    torch: Any = field(default_factory=lambda: SimpleNamespace(cuda=SimpleNamespace(nccl=NCCL_LIBRARY)))


CARD = Card()


@pytest.fixture
def cpu() -> Gpu:
    return Gpu(torch=torch, device="cpu")


@pytest.mark.parametrize("name", tables.names())
def test_every_table_has_the_columns_of_the_one_that_validate_reads(name):
    columns = tables[name].columns
    kind, header = OTHERS.get(name, ("", ""))
    if not header:
        shipped = load_measurements(Path(shipped_folder("h200")) / f"{LIKE[name]}.csv")
        kind, header = format_of(shipped), ",".join(shipped.columns)
    assert ",".join(columns) == header
    row = tuple(str(1 + place) for place in range(len(columns)))
    assert format_of(Measurements(name=name, shown=name, columns=columns, rows=(row,), lines=(2,))) == kind
    assert kind in formats


@pytest.mark.parametrize("name", tables.names())
def test_a_sample_is_of_different_rows_and_the_same_each_time(name):
    found = tables[name].rows(CARD)
    assert len(found) == len(set(found)) > 0
    assert found == tables[name].rows(CARD)
    assert {len(key) for key in found} == {tables[name].num_keys}
    quick = tables[name].sample(is_quick=True, gpu=CARD)
    assert set(quick) <= set(found)
    assert len(quick) <= tables[name].num_quick


def test_the_sample_of_operators_is_a_few_hundred_rows():
    num_rows = sum(len(tables[name].rows(CARD)) for name in tables.names() if name != "collectives")
    assert 300 < num_rows < 700


def test_collectives_are_of_as_many_ranks_as_there_are_gpus():
    assert {key[3] for key in tables["collectives"].rows(replace(CARD, num_gpus=4))} == {"2", "4"}
    assert "several GPUs" in tables["collectives"].why_not(replace(CARD, num_gpus=1))


def test_what_a_card_has_not_is_said_in_a_line():
    assert tables["gemm_fp8"].why_not(CARD) == ""
    assert "8.9" in tables["gemm_fp8"].why_not(replace(CARD, capability=(8, 0)))
    assert "AMD" in tables["gemm_fp8"].why_not(replace(CARD, is_amd=True))
    assert "8.0" in tables["gemm_bf16"].why_not(replace(CARD, capability=(7, 0)))
    assert "nvidia-smi" in tables["power"].why_not(replace(CARD, is_amd=True))


def small(cell: str) -> str:
    return re.sub(r"\d+", lambda size: str(min(int(size[0]), 16)), cell)


def small_keys(name: str, gpu: Gpu) -> list[Key]:
    """Rows of every kind in a table, with extents that a CPU multiplies at once."""
    if name == "attention":
        return [("1", "4", kv, "16", "8", causal, way) for kv in "41" for causal in "01" for way in ("fwd", "bwd")]
    if name == "convolution":
        return [("2", "3", "4", "3", "1", "8", "1", way) for way in ("fwd", "dgrad", "wgrad")]
    found: dict[Key, None] = {}
    for key in tables[name].rows(gpu):
        words = {"vector": 1, "eager_ops": 1, "ceilings": 1}.get(name, 0)
        kinds = [re.sub(r"_v\d+", "_v64", cell) if "bag" not in cell else cell for cell in key[:words]]
        tail = int(name == "vector" or (name.startswith("gemm") and name != "gemm_fp8"))
        tail += name == "eager_ops"
        cells = [small(cell) for cell in key[words : len(key) - tail]]
        found[(*kinds, *cells, *key[len(key) - tail :])] = None
    return list(found)


@pytest.mark.parametrize("name", [name for name in LIKE if name not in ("power", "ceilings")])
def test_every_kind_of_row_runs_and_fills_its_columns(name, cpu, monkeypatch):
    monkeypatch.setattr(Gpu, "median_s", lambda _self, call: (call(), 1e-6)[1])
    rows = list(tables[name].measure(cpu, small_keys(name, cpu)))
    assert [(row.key, row.why_not) for row in rows if row.why_not] == []
    assert {len(row.key) + len(row.cells) for row in rows} == {len(tables[name].columns)}


def test_a_call_is_timed_after_it_was_warmed_up(cpu):
    num_calls = []
    assert cpu.median_s(lambda: num_calls.append(1)) > 0
    assert len(num_calls) > 10


@dataclass
class Meter:
    """Measures rows of its own; some fail, and it can be killed before one."""

    failing: tuple[str, ...] = ()
    dies_at: str = ""
    num_asked: int = 0

    def table(self, file: str = "bmm.csv", num_rows: int = 10) -> MeasuredTable:
        return MeasuredTable(
            group="bmm",
            file=file,
            columns=("b", "m", "time_us"),
            num_keys=2,
            rows=lambda _gpu: [("8", str(m)) for m in range(num_rows)],
            measure=one_by_one(self.one),
            row_s=1.0,
        )

    def one(self, _gpu: Any, key: Key) -> tuple[str, ...]:
        self.num_asked += 1
        if key[1] == self.dies_at:
            raise KeyboardInterrupt
        if key[1] in self.failing:
            raise RuntimeError("CUDA out of memory. Tried to allocate 3 GiB")
        return ("5.5",)


@pytest.fixture
def run(tmp_path, cpu, monkeypatch):
    def runs(*made: MeasuredTable, **options: Any) -> Any:
        monkeypatch.setattr(session, "chosen_tables", lambda _only: list(made))
        return measured(cpu, tmp_path / "out", **options)

    return runs


def test_a_stopped_run_goes_on_where_it_was(run, tmp_path):
    stopped = Meter(dies_at="6")
    with pytest.raises(KeyboardInterrupt):
        run(stopped.table())
    file = tmp_path / "out" / "bmm.csv"
    assert len(file.read_text(encoding="utf-8").splitlines()) == 1 + 6
    with open(file, "a", encoding="utf-8") as stream:
        stream.write("8,6,")  # as a process that was killed amid a line leaves it
    again = Meter()
    [found] = run(again.table())
    assert (again.num_asked, found.num_measured, found.num_kept) == (4, 4, 6)
    [last] = run(again.table())
    assert (again.num_asked, last.num_measured, last.num_kept) == (4, 0, 10)
    assert json.loads((tmp_path / "out" / "machine.json").read_text(encoding="utf-8"))["took_s"] >= 0


def test_a_row_that_fails_is_counted_and_costs_no_other(run):
    [found] = run(Meter(failing=("3", "4")).table())
    assert (found.num_measured, found.num_failed) == (8, 2)
    assert found.failed == (("out of memory", 2),)


def test_the_time_left_is_that_of_the_rows_to_come(run):
    now, told = iter(range(1000)), list[Standing]()
    run(Meter().table(), Meter().table("other.csv", 5), watch=told.append, clock=lambda: 2.0 * next(now))
    assert [one.num_done for one in told] == list(range(1, 16))
    assert told[0].left_s == pytest.approx(14 * 2.0)  # rows of the other table as much longer than planned as these
    assert told[-1].left_s == 0
    assert {one.num_all for one in told} == {15}


def test_rows_of_another_card_are_not_added_to(run, tmp_path):
    run(Meter().table())
    file = tmp_path / "out" / "machine.json"
    file.write_text('{"gpu": "NVIDIA A100"}', encoding="utf-8")
    with pytest.raises(InvalidInput, match="holds rows of NVIDIA A100"):
        run(Meter().table())
    file.write_text("{broken", encoding="utf-8")
    run(Meter().table())


def test_groups_are_chosen_by_name_and_those_that_warm_the_card_are_last():
    assert {one.group for one in chosen_tables(("gemm", "bmm"))} == {"gemm", "bmm"}
    every = [one.group for one in chosen_tables(())]
    assert every[-3:] == ["power", "steps", "collectives"]
    with pytest.raises(InvalidInput, match="did you mean gemm"):
        chosen_tables(("gem",))


def test_configurations_are_kept_beside_the_table_of_steps(tmp_path):
    from dovetail.importers.torch_cases import configs_in

    write_cases(tmp_path, {"mine": {"model_type": "llama", "eps": 1e-5, "tie": False, "scale": None}})
    write_cases(tmp_path, {"other": {"model_type": "gpt2"}})
    found = configs_in(tmp_path / "steps_cases.py")
    assert found["mine"] == {"model_type": "llama", "eps": 1e-5, "tie": False, "scale": None}
    assert {"mine", "other", "bert-base"} <= set(found)


def test_a_reason_is_one_line():
    assert reason(RuntimeError("bad\n  thing")) == "RuntimeError: bad thing"
    assert reason(ValueError()) == "ValueError: ValueError"


def test_a_broken_device_ends_the_run(tmp_path):
    class Broken:
        def freed(self) -> None: ...

        def wait(self) -> None:
            raise RuntimeError("illegal memory access")

    def fails(_gpu: Any, _key: Key) -> tuple[str, ...]:
        raise RuntimeError("illegal memory access")

    rows: Iterator[MeasuredRow] = one_by_one(fails)(Broken(), [("1",)])
    with pytest.raises(InvalidInput, match="the GPU stopped: RuntimeError: illegal memory access; rows so far"):
        next(rows)


def test_a_row_is_whole_or_not_there(tmp_path):
    file = RowFile(file=tmp_path / "a.csv", columns=("b", "time_us"), num_keys=1)
    file.opened()
    with pytest.raises(AssertionError, match="are not"):
        file.append(("8",))
