"""What predictions are worth for choosing a plan, as tables: ranks, regret, one factor a publisher, memory, peers."""

from __future__ import annotations

from collections.abc import Iterable

from dovetail.report.record import Record
from dovetail.report.table import Table

_RANKS = (
    "Spearman: mean correlation of ranks inside jobs that were run by 4 plans or more; regret: how much longer the plan"
    " takes that we say is fastest, inside those of 3 or more; in %, mean and largest"
)
_SCALAR = (
    "one factor: MAPE in % on the other rows once a factor of each publisher is fitted on three of its rows, mean over"
    " draws of three; publishers of three rows or fewer are left out"
)
_MEMORY = (
    "runs that say what is recomputed and on which device; false: ran, and we say that it does not fit; missed: ran out"
    " of memory, and we say that it fits"
)
_PEERS = (
    "MAPE in %; the other's as measured outside of its own validation set, on rows that may be others of the same set"
)


def choosing_tables(record: Record) -> list[Table]:
    """Tables that have rows; `record` as `validation_record` gives it."""
    sets = record["sets"]
    tables = (
        Table(
            title="choosing among plans, and one factor a publisher",
            columns=("set, kind", "Spearman", "jobs", "regret", "max", "jobs", "MAPE", "one factor"),
            rows=tuple(row for one in sets for row in _choosing_rows(one)),
            align="lrrrrrrr",
            notes=(_RANKS, _SCALAR),
        ),
        Table(
            title="does it fit",
            columns=("set, kind", "ran", "false", "out of memory", "missed"),
            rows=tuple(row for one in sets for row in _decided_rows(one)),
            align="lrrrr",
            notes=(_MEMORY,),
        ),
        Table(
            title="beside other predictors",
            columns=("rows", "n", "ours", "other's", "who"),
            rows=tuple(row for one in sets for row in _beside_rows(one)),
            align="lrrrl",
            notes=(_PEERS,),
        ),
    )
    return [table for table in tables if table.rows]


def _choosing_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for scored in one["scores"]:
        ranked, fitted = scored.get("ranking"), scored.get("one_scalar")
        if not ranked and not fitted:
            continue
        name = f"  {scored['kind']}" if scored["kind"] else one["set"]
        yield (name, *_rank_words(ranked), _percent(scored["mape_frac"]), _factor_words(fitted))


def _rank_words(ranked: Record | None) -> tuple[str, ...]:
    if not ranked:
        return ("",) * 5
    correlation = (f"{ranked['spearman']:.2f}", str(ranked["num_ranked"])) if ranked["num_ranked"] else ("", "")
    regret = tuple(_percent(ranked[key]) for key in ("regret_frac", "worst_regret_frac"))
    return (*correlation, *regret, str(ranked["num_picked"]))


def _factor_words(fitted: Record | None) -> str:
    return _percent(fitted["mape_frac"]) if fitted else ""


def _decided_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for decided in one.get("decided", ()):
        name = f"  {decided['kind']}" if decided["kind"] else one["set"]
        yield (name, *(f"{decided[key]:,}" for key in ("num_ran", "num_false", "num_failed", "num_missed")))


def _beside_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for beside in one.get("beside", ()):
        least, most = _percent(beside["least_frac"]), _percent(beside["most_frac"])
        other = least if least == most else f"{least} to {most}"
        yield (beside["what"], f"{beside['num_rows']:,}", _percent(beside["mape_frac"]), other, beside["peer"])


def _percent(frac: float) -> str:
    return f"{100 * frac:.1f}"
