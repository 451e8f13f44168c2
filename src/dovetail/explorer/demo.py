"""The demo study that ships: a front of chips for one model, so that the search page has something to look at.

It is a file that `python -m dovetail.explorer.demo` writes; a test evaluates some of its systems again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from dovetail.explorer.fronts import Front, FrontPoint, front_of_report
from dovetail.explorer.state import query_of, states_of
from dovetail.files.written import write_file
from dovetail.report.fronts import FrontReport
from dovetail.report.table import Table
from dovetail.store.version import physics_version

FILE = Path(__file__).parent / "data" / "demo_front.json"
MODEL, PRESET, NUM_DEVICES, AXES = "gpt2-1.5b", "chip", 64, ("throughput", "area", "power")
NUM_POINTS = 120  # of the front, spread along its first axis
DIGITS = 7


@cache
def demo_front() -> Front:
    """The demo study as the search page shows it."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    return Front(
        title=kept["title"],
        said=tuple(kept["said"]),
        axes=tuple(kept["axes"]),
        is_more_better=tuple(kept["is_more_better"]),
        knobs=tuple(kept["knobs"]),
        points=tuple(_point(one) for one in kept["points"]),
    )


def _point(kept: dict[str, Any]) -> FrontPoint:
    rows = tuple((str(row[0]), str(row[1])) for row in kept["rows"])
    return FrontPoint(
        figures=tuple(float(str(value)) for value in kept["figures"]),
        brief=str(kept["brief"]),
        knobs=tuple(float(str(value)) for value in kept["knobs"]),
        system=Table(title="The system", rows=rows),
        states=tuple(states_of(parse_qsl(str(query)))[0] for query in kept["states"]),
    )


def written_demo() -> str:
    """The demo study, searched again, as text of its file."""
    from dovetail.api.requests.searches import pareto

    found = pareto(MODEL, preset=PRESET, devices=NUM_DEVICES, axes=AXES)
    assert isinstance(found.outcome, FrontReport), "no system of the demo fits"
    front = front_of_report(found.outcome)
    points = _spread(front.points)
    first = (
        f"A demo that ships with Dovetail: {len(points)} of the {len(front.points):,} systems of an exact front,"
        f" by physics {physics_version()}."
    )
    record = {
        "physics": physics_version(),
        "title": f"{MODEL} on {NUM_DEVICES} chips: Pareto front of throughput, area and power",
        "said": [first, *front.said],
        "axes": front.axes,
        "is_more_better": front.is_more_better,
        "knobs": front.knobs,
        "points": [
            {
                "figures": [float(f"{value:.{DIGITS}g}") for value in one.figures],
                "brief": one.brief,
                "knobs": one.knobs,
                "rows": one.system.rows,
                "states": [query_of(state) for state in one.states],
            }
            for one in points
        ],
    }
    return json.dumps(record, indent=0) + "\n"


def _spread(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    ordered = sorted(points, key=lambda one: one.figures, reverse=True)
    places = sorted({round(place * (len(ordered) - 1) / (NUM_POINTS - 1)) for place in range(NUM_POINTS)})
    return [ordered[place] for place in places]


if __name__ == "__main__":
    write_file(FILE, written_demo())
