"""What predictions are worth for choosing a plan, as tables: ranks, regret, bars, one factor, memory, peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dovetail.accuracy.choice_bars import AT_LEAST
from dovetail.report.plain import Record
from dovetail.report.table import Table

_RANKS = (
    "Spearman: mean correlation of ranks inside jobs that were run by 4 plans or more; regret: how much longer the plan"
    " takes that is predicted fastest, inside those of 3 or more; in %, mean and largest"
)
_SCALAR = (
    "one factor: MAPE in % on the other rows once a factor of each publisher is fitted on three of its rows, mean over"
    " draws of three; publishers of three rows or fewer are left out"
)
_BARS = (
    "Spearman and regret over n jobs, the factor over n rows, decided: n runs whose fit was predicted rightly; in %"
    " but for Spearman"
)
_MEMORY = (
    "runs that state what is recomputed and on which device; false: ran, predicted not to fit; missed: ran out of"
    " memory, predicted to fit"
)
_PEERS = (
    "MAPE in %; the other's as measured outside of its own validation set, on rows that may be others of the same set"
)


_COVERAGE = (
    "in %: published runs inside the interval that others give, each with itself or its publisher left out; how wide"
    " that is in the middle, over the time"
)
NOT_JUDGED = "not judged: no rows"
_NOTES = {
    "choosing among plans, and one factor a publisher": (_RANKS, _SCALAR),
    "bars on choosing": (_BARS,),
    "does it fit": (_MEMORY,),
    "against other predictors": (_PEERS,),
}


def choosing_tables(record: Record) -> list[Table]:
    """Tables that have rows; `record` as `validation_record` gives it."""
    sets = record["sets"]
    ranks = ("set, kind", "Spearman", "jobs", "regret", "max", "jobs", "MAPE", "one factor")
    tables = (
        _table(sets, "choosing among plans, and one factor a publisher", ranks, "lrrrrrrr", _choosing_rows),
        _table(sets, "bars on choosing", ("of", "what", "n", "found", "bar", ""), "llrrrl", _bar_rows),
        _table(sets, "does it fit", ("set, kind", "ran", "false", "out of memory", "missed"), "lrrrr", _decided_rows),
        _table(sets, "against other predictors", ("rows", "n", "ours", "other's", "who"), "lrrrl", _beside_rows),
    )
    return [table for table in (*tables, _coverage_table(record)) if table.rows]


def _table(
    sets: list[Record],
    title: str,
    columns: tuple[str, ...],
    align: str,
    rows_of: Callable[[Record], Iterable[tuple[str, ...]]],
) -> Table:
    rows = tuple(row for one in sets for row in rows_of(one))
    return Table(title=title, columns=columns, rows=rows, align=align, notes=_NOTES[title])


def _choosing_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for scored in one["scores"]:
        ranked, fitted = scored.get("ranking"), scored.get("one_scalar")
        if not ranked and not fitted:
            continue
        name = f"  {scored['kind']}" if scored["kind"] else one["set"]
        yield (name, *_rank_labels(ranked), _percent(scored["mape_frac"]), _factor_label(fitted))


def _rank_labels(ranked: Record | None) -> tuple[str, ...]:
    if not ranked:
        return ("",) * 5
    correlation = (f"{ranked['spearman']:.2f}", str(ranked["num_ranked"])) if ranked["num_ranked"] else ("", "")
    regret = tuple(_percent(ranked[key]) for key in ("regret_frac", "worst_regret_frac"))
    return (*correlation, *regret, str(ranked["num_picked"]))


def _factor_label(fitted: Record | None) -> str:
    return _percent(fitted["mape_frac"]) if fitted else ""


def _bar_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for choice in one.get("choices", ()):
        words = _share if choice["statistic"] == "Spearman" else _percent
        verdict = "ok" if choice["holds"] else "MISSED"
        of = choice["kind"] or one["set"]
        found = (f"{choice['num_judged']:,}", words(choice["measured"]), _bar_label(choice), verdict)
        yield of, choice["statistic"], *found

    for not_judged in one.get("not_judged", ()):
        yield not_judged["kind"], not_judged["statistic"], "0", "-", _bar_label(not_judged), NOT_JUDGED


def _bar_label(judged: Record) -> str:
    words = _share if judged["statistic"] == "Spearman" else _percent
    return f"{'>=' if judged['statistic'] in AT_LEAST else '<='} {words(judged['limit'])}"


def _decided_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for decided in one.get("memory_verdicts", ()):
        name = f"  {decided['kind']}" if decided["kind"] else one["set"]
        yield (name, *(f"{decided[key]:,}" for key in ("num_ran", "num_false", "num_failed", "num_missed")))


def _beside_rows(one: Record) -> Iterable[tuple[str, ...]]:
    for beside in one.get("peers", ()):
        yield beside["what"], f"{beside['num_rows']:,}", _percent(beside["mape_frac"]), _others(beside), beside["peer"]
    for peer in one.get("peers_without_rows", ()):
        yield peer["what"], "0", "-", _others(peer), f"{peer['peer']}; {NOT_JUDGED}"


def _others(peer: Record) -> str:
    least, most = _percent(peer["least_frac"]), _percent(peer["most_frac"])
    return least if least == most else f"{least} to {most}"


def _coverage_table(record: Record) -> Table:
    """Intervals against their bar; none where no published runs were asked for."""
    rows = tuple(
        (
            one["left_out"],
            f"{one['num_rows']:,}",
            _percent(one["covered_frac"]),
            _percent(one["width_frac"]),
            f"{_percent(one['least_frac'])} to {_percent(one['most_frac'])}",
            "ok" if one["holds"] else "MISSED",
        )
        for one in record.get("coverage", ())
    )
    columns = ("left out", "n", "inside", "wide", "bar", "")
    return Table(title="do 90 % intervals hold", columns=columns, rows=rows, align="lrrrrl", notes=(_COVERAGE,))


def _share(value: float) -> str:
    return f"{value:.2f}"


def _percent(frac: float) -> str:
    return f"{100 * frac:.1f}"
