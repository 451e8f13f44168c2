"""ASTRA-sim where splits do not divide the size: it makes one chunk more, as large as the others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.comm.astra.engine import collective_ticks
from dovetail.comm.astra.forms import chunk_sizes_bytes
from dovetail.comm.astra.system import AstraDim, AstraSystem
from dovetail.files.measurements import load_measurements

TABLE = Path(__file__).parent.parent / "data" / "astrasim_uneven_splits.csv"


def test_collectives_of_uneven_splits_are_met_to_the_nanosecond():
    [found] = prepared(load_measurements(TABLE), TableContext())
    assert len(found.measured) == 30
    assert np.array_equal(np.rint(found.predicted(found.chip) * 1e9), np.rint(found.measured * 1e9))


def test_three_splits_make_four_chunks_and_seven_make_eight():
    dim = AstraDim(kind="Ring", num_ranks=8, bytes_per_tick=50.0, latency_ticks=500.0)

    def chunks(size_bytes: int, splits: int) -> tuple[int, ...]:
        system = AstraSystem(dims=(dim,), algorithms={"all_reduce": ("ring",)}, num_chunks=splits)
        assert collective_ticks(system, "all_reduce", size_bytes) > 0
        return chunk_sizes_bytes(system, size_bytes)

    assert chunks(1000, 3) == (333,) * 4
    assert chunks(1000, 7) == (142,) * 8
    assert chunks(1000, 4) == (250,) * 4
