"""Tracks as Perfetto's own schema reads them back."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.perfetto import check_trace_name, encoded_trace
from dovetail.report.tracks import Counter, Process, Slice, Track
from tests.perfetto_traces import seen

SLICES = (
    Slice(name="gemm", begin_s=0.0, end_s=1e-6, category="compute", notes=(("bytes", 2**40), ("share", 0.25))),
    Slice(name="gemm", begin_s=1e-6, end_s=1e-6, category="compute"),
    Slice(name="réduction", begin_s=1e-6, end_s=3.5, category="link", notes=(("what", "sum"), ("less", -3))),
)


def test_slices_processes_and_counters_are_read_back():
    counter = Counter(name="busy", unit="%", points=((0.0, 12.5), (2.0, 0.0)))
    processes = (
        Process(number=1, name="device 0", tracks=(Track(name="compute", slices=SLICES), Track(name="x", slices=()))),
        Process(number=7, name="network", tracks=(), counters=(counter,)),
    )
    found = seen(encoded_trace(processes))
    assert found.processes == {1: "device 0", 7: "network"}
    assert found.counters == {"busy": [(0, 12.5), (2_000_000_000, 0.0)]}
    shown = found.on("device 0", "compute")
    assert [(one.name, one.category, one.begin_ns, one.end_ns) for one in shown] == [
        ("gemm", "compute", 0, 1000),
        ("gemm", "compute", 1000, 1000),
        ("réduction", "link", 1000, 3_500_000_000),
    ]
    assert [one.notes for one in shown] == [{"bytes": 2**40, "share": 0.25}, {}, {"what": "sum", "less": -3}]


def test_a_name_is_written_once_however_often_it_is_used():
    slices = tuple(Slice(name="a" * 1000, begin_s=i, end_s=i + 1, category="link") for i in range(100))
    data = encoded_trace((Process(number=1, name="d", tracks=(Track(name="t", slices=slices),)),))
    assert data.count(b"a" * 1000) == 1
    assert len(data) < 10_000


def test_a_name_that_promises_text_is_refused():
    for name in ("out.pftrace", "out", "runs/out.perfetto-trace", ""):
        check_trace_name(name)
    for name in ("out.json", "out.JSON", "out.csv"):
        with pytest.raises(InvalidInput, match=r"name it \.pftrace \(--perfetto\)"):
            check_trace_name(name)
