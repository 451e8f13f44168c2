"""The cost model's promises: every documented bar on every set that this machine has, and closed forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bar import Bar, reference_data
from benchmarks.pairs import pace, paper_chips, training_layer
from benchmarks.published_gemm import ABSENT, published_sets
from dovetail.accuracy.prepared import Prepared, TableContext
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.validation import validation
from dovetail.files.measurements import SHIPPED, csv_files, load_measurements, shipped_folder
from dovetail.units import MEGA

ISSUE = 3
MIN_PAIRS_PER_S = 3 * MEGA
# formats whose bars stand in files of their own
OTHER_BARS = ("astra-collectives", "astra-steps", "contention", "contention-copies")


def bars() -> Iterator[Bar]:
    published = published_sets()
    yield from judged([*shipped_sets(), *published])
    if not published:
        name = "published matrix products"
        yield Bar(name=name, issue=ISSUE, bar="median 10 %", measured="-", holds=None, note=ABSENT)
    yield Bar(
        name="gemm b200", issue=ISSUE, bar="median <= 10.0%", measured="-", holds=None, note="no B200 rows are at hand"
    )
    yield phaze_area()
    yield speed()


def phaze_area() -> Bar:
    """PHAZE's own areas, which the named model must give exactly."""
    name, told = "area_model phaze-22nm", "worst <= 1e-9"
    file = reference_data("third_party/arch_area_sample.csv")
    if file is None:
        return Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
    [bar] = judged(list(prepared(load_measurements(file), TableContext())))
    return replace(bar, name=name, bar=told)


def speed() -> Bar:
    """Pairs a CPU-second, a training layer on array chips."""
    found = pace(training_layer(), paper_chips())
    return Bar(
        name="operator-chip pairs a second, one core",
        issue=ISSUE,
        bar=f">= {MIN_PAIRS_PER_S / MEGA:.0f} M",
        measured=f"{found.pairs_per_s / MEGA:.1f} M ({found.num_operators} operators x {found.num_chips:,} chips)",
        holds=found.pairs_per_s >= MIN_PAIRS_PER_S,
    )


def shipped_sets() -> list[Prepared]:
    tables = [load_measurements(file) for name in SHIPPED for file in csv_files(shipped_folder(name))]
    chosen = [table for table in tables if format_of(table) and format_of(table) not in OTHER_BARS]
    return [one for table in chosen for one in prepared(table, TableContext())]


def judged(sets: list[Prepared]) -> Iterator[Bar]:
    for one in validation(sets).sets:
        for scored in one.scored:
            for found in scored.judged:
                yield Bar(
                    name=" ".join(word for word in (one.name, scored.kind) if word),
                    issue=ISSUE,
                    bar=f"{found.bar.statistic} <= {found.bar.limit_frac:.1%}",
                    measured=f"{found.measured_frac:.1%} of {scored.score.num_rows:,} rows",
                    holds=found.holds,
                )
