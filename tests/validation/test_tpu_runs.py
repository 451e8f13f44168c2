"""Does what ran on TPUs fit? Published steps of MaxText, v4 to v6e: of their peaks it is known only that they ran."""

from __future__ import annotations

from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import prepared
from dovetail.files.measurements import load_measurements, shipped_folder


def runs() -> Prepared:
    [found] = prepared(load_measurements(shipped_folder("published") / "published_tpu.csv"), TableContext())
    return found


def test_every_published_run_on_tpus_is_read_and_fits() -> None:
    found = runs()
    assert len(found.measured) == 16
    assert not found.skipped
    assert [what for what in found.whats if ": fits, " not in what] == []
    assert all(decision.fits for decision in found.decisions)
