"""A comparison with measurements as plain data for JSON, and as tables of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from dovetail.accuracy.compared import Compared
from dovetail.accuracy.coverage import LEAST_FRAC, MOST_FRAC, JudgedCoverage
from dovetail.accuracy.peers import Peer
from dovetail.accuracy.validation import Beside, Judged, Scored, ScoredSet, Validation
from dovetail.report.choosing import choosing_tables
from dovetail.report.labels import counted
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_s

_SHORT = {"MAPE": "MAPE", "median": "med", "p90": "p90", "worst": "max"}
_HEADINGS = ("set, kind", "n", "MAPE", "median", "p90", "bias", "bar", "")
_NUM_FIGURES = 6  # columns before the bar
SHOWN_FRAC = 1e-6  # style: a tolerance; errors below it are those of the last digit
MEANING = (
    "in %: mean, median and 90th percentile of |predicted / measured - 1|; bias is the mean with its sign, below 0"
    " where predictions are too low"
)


def validation_record(validation: Validation) -> Record:
    return {
        "holds": validation.holds,
        "sets": [_set_record(one) for one in validation.sets],
        "notes": list(validation.notes),
        **({"coverage": [_coverage_record(one) for one in validation.coverage]} if validation.coverage else {}),
    }


def judged_once(sets: Sequence[Record]) -> list[Record]:
    """`sets`, of several runs, without bars and peers left open in one whose rows are in another."""
    judged = {choice["kind"] for one in sets for choice in one.get("choices", ())}
    met = {(beside["peer"], beside["what"]) for one in sets for beside in one.get("peers", ())}
    return [
        one
        | {
            "not_judged": [left for left in one.get("not_judged", ()) if left["kind"] not in judged],
            "peers_without_rows": [
                peer for peer in one.get("peers_without_rows", ()) if (peer["peer"], peer["what"]) not in met
            ],
        }
        for one in sets
    ]


def accuracy_verdict(record: Record, left_out: Sequence[str] = ()) -> str:
    """Whether the bars of these sets hold, and which sets that ship are not among them."""
    message = "every documented bar of these sets holds" if record["holds"] else "a documented bar is missed"
    if not left_out:
        return message
    asked = f"`dovetail validate {' '.join(left_out)}` compares"
    return f"{message}; {' and '.join(left_out)} is not among them: {asked} with whole training runs"


def _coverage_record(one: JudgedCoverage) -> Record:
    bar = {"least_frac": LEAST_FRAC, "most_frac": MOST_FRAC, "holds": one.holds}
    return {"left_out": one.left_out, **asdict(one.coverage), **bar}


def _set_record(one: ScoredSet) -> Record:
    return {
        "set": one.name,
        "chip": one.chip,
        "unit": one.unit,
        "scores": [_score_record(scored) for scored in one.scored],
        "skipped": [{"what": what, "num_rows": count} for what, count in one.skipped],
        "memory_verdicts": [asdict(decided) for decided in one.memory_verdicts],
        "peers": [_beside_record(beside) for beside in one.peers],
        "choices": [asdict(choice) | {"holds": choice.holds} for choice in one.choices],
        "not_judged": [asdict(not_judged) for not_judged in one.not_judged],
        "peers_without_rows": [_peer_record(peer) for peer in one.peers_without_rows],
    }


def _beside_record(beside: Beside) -> Record:
    return _peer_record(beside.peer) | {"num_rows": beside.num_rows, "mape_frac": beside.mape_frac}


def _peer_record(peer: Peer) -> Record:
    return {"peer": peer.name, "what": peer.what, "least_frac": peer.least_frac, "most_frac": peer.most_frac}


def _score_record(scored: Scored) -> Record:
    score = scored.score
    return {
        "kind": scored.kind,
        "num_rows": score.num_rows,
        "mape_frac": score.mape_frac,
        "median_frac": score.median_frac,
        "p90_frac": score.p90_frac,
        "worst_frac": score.worst_frac,
        "bias_frac": score.bias_frac,
        "bars": [_bar_record(judged) for judged in scored.judged],
        "worst": [_row_record(row) for row in score.worst],
        **_choosing_record(scored),
    }


def _choosing_record(scored: Scored) -> Record:
    """What only sets have whose rows are plans to choose between, of publishers to be fitted."""
    found: Record = {}
    if scored.ranking.num_picked:
        found["ranking"] = asdict(scored.ranking)
    if scored.one_scalar.num_rows:
        found["one_scalar"] = asdict(scored.one_scalar)
    return found


def _bar_record(judged: Judged) -> Record:
    return {
        "statistic": judged.bar.statistic,
        "limit_frac": judged.bar.limit_frac,
        "measured_frac": judged.measured_frac,
        "holds": judged.holds,
    }


def _row_record(row: Compared) -> Record:
    return {
        "kind": row.kind,
        "what": row.what,
        "measured": row.measured,
        "predicted": row.predicted,
        "error_frac": row.error_frac,
    }


def accuracy_tables(record: Record) -> tuple[Table, ...]:
    """Scores, then the worst rows of each set; `record` as `validation_record` gives it."""
    sets = record["sets"]
    rows = tuple(row for one in sets for row in _score_rows(one))
    chips = sorted({one["chip"] for one in sets if one["chip"]})
    title = ", ".join((f"predicted against measured: {counted(len(sets), 'set')}", *chips))
    num_columns = len(_HEADINGS) if any(row[-1] for row in rows) else _NUM_FIGURES  # no bar holds for any of them
    cut = tuple(row[:num_columns] for row in rows)
    tables = [
        Table(title=title, columns=_HEADINGS[:num_columns], rows=cut, align="lrrrrrll", notes=_notes(record)),
    ]
    tables += choosing_tables(record)
    worst = tuple(row for one in sets for row in _worst_rows(one))
    if worst:
        headings = ("error", "measured", "predicted", "row")
        tables.append(Table(title="worst rows", columns=headings, rows=worst, align="rrrl"))
    return tuple(tables)


def _score_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for scored in one["scores"]:
        name = f"  {scored['kind']}" if scored["kind"] else one["set"]
        yield (name, f"{scored['num_rows']:,}", *figures(scored), bar_label(scored["bars"]), verdict(scored["bars"]))


def figures(scored: Record) -> tuple[str, ...]:
    """MAPE, median, p90 and bias in percent."""
    sizes = tuple(f"{100 * scored[key]:.1f}" for key in ("mape_frac", "median_frac", "p90_frac"))
    return (*sizes, f"{round(100 * scored['bias_frac'], 1) + 0.0:+.1f}")


def bar_label(bars: list[Record]) -> str:
    return " ".join(_bar_word(bar) for bar in bars)


def _bar_word(bar: Record) -> str:
    if bar["statistic"] == "worst" and bar["limit_frac"] < 0.0001:  # style: below what a table shows
        return "equal"
    return f"{_SHORT[bar['statistic']]} {100 * bar['limit_frac']:g}"


def verdict(bars: list[Record]) -> str:
    if not bars:
        return ""
    return "ok" if all(bar["holds"] for bar in bars) else "MISSED"


def _notes(record: Record) -> tuple[str, ...]:
    skipped = [f"- {one['set']}: {skipped_label(part)}" for one in record["sets"] for part in one["skipped"]]
    return (MEANING, *skipped, *(f"- {note}" for note in record["notes"]))


def skipped_label(part: Record) -> str:
    """How many rows were left out, and which: '1 row with a blank cell'."""
    what: str = part["what"]
    if part["num_rows"] == 1:
        what = what.replace("rows ", "row ", 1)
    return f"{part['num_rows']:,} {what}"


def _worst_rows(one: Record) -> Iterable[tuple[str, ...]]:
    if not one["scores"]:
        return
    for row in one["scores"][0]["worst"]:
        if abs(row["error_frac"]) < SHOWN_FRAC:
            continue
        name = f"{one['set']}: {row['kind']} {row['what']}"
        pair = (amount(row["measured"], one["unit"]), amount(row["predicted"], one["unit"]))
        yield (f"{100 * row['error_frac']:+.0f} %", *pair, name)


def amount(value: Any, unit: str) -> str:
    """A measured or predicted value as people say it."""
    if unit == "s":
        return format_s(value, 1)
    words = {"w": "W", "mm2": "mm2", "cycles": "cycles"}.get(unit, unit)
    return f"{value:,.0f} {words}" if value >= 100 else f"{value:.3g} {words}"
