"""The table beyond ACE: iterations by mechanism, arbitration, and where the endpoint still matters."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.papers.beyond import ARBITRATIONS, MATTERS_FRAC, Compared
from dovetail.papers.beyond_cases import MECHANISMS, NUM_DEVICES, NUM_SPLITS
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import MILLI

CORES = (
    "On H100 every kernel beside held SMs takes what the contention model says (measured on an H200: waves of blocks,"
    " broken clusters, threads and shared memory). Nobody measured ACE's NPU and Trainium beside held cores: there they"
    " stretch what is bound by cores by their share, which is too cheap where products no longer fit in their waves."
)
MEANING = (
    f"ms an iteration on {NUM_DEVICES} devices (TP+SP: 8 H100 on NVLink, 16 Trainium2 on their torus, two halves of a"
    " microbatch in turns). SM ring, copy engine and in-switch take what they need when they need it; ACE has the best"
    f" static split of {NUM_SPLITS}; ACE+ is ACE with Themis' order of dimensions and dynamic arbitration; ideal costs"
    " the chip nothing and sends in the quickest of these ways, so that nothing beats it.",
    "On ACE's NPU compute times have the scales of T4; elsewhere they are the cost model's own. In-switch reduction"
    " needs switches throughout, which tori do not have.",
    "On Trainium, which has no SMs, an SM ring is one that its cores would drive; what it ships is nearer to ACE.",
    CORES,
)
SAVES_FRAC = 0.02  # of an iteration, above which another way of sending is named


def beyond_record(found: Sequence[Compared]) -> Record:
    return {
        "rows": [
            {
                "workload": one.job,
                "system": one.system,
                "alone_s": one.iterations[0][1].alone_s,
                "mechanisms": [
                    {
                        "mechanism": name,
                        "iteration_s": it.iteration_s,
                        "blocking_s": it.blocking_s,
                        "slowed_s": it.slowed_s,
                    }
                    for name, it in one.iterations
                ],
                "arbitrations": [
                    {"mechanism": name, "arbitration": how, "iteration_s": seconds}
                    for name, how, seconds in one.arbitrated
                ],
                "free_s": one.free_s,
                "endpoint_frac": one.endpoint_frac,
                "does_matter": one.does_matter,
                "order_frac": one.order_frac,
                "switch_frac": one.switch_frac,
            }
            for one in found
        ],
        "verdict": list(_verdict(found)),
    }


def _verdict(found: Sequence[Compared]) -> tuple[str, ...]:
    """Where the endpoint matters and where it does not, in sentences."""
    share = f"{100 * MATTERS_FRAC:.0f} %"
    matters = [(one, one.endpoint_frac) for one in found if one.does_matter]
    others = [(one, one.endpoint_frac) for one in found if not one.does_matter]
    by_switch = [(one, one.switch_frac) for one in found if one.switch_frac > SAVES_FRAC]
    by_order = [(one, one.order_frac) for one in found if one.order_frac > SAVES_FRAC]
    return (
        f"The endpoint matters, an SM ring costing more than {share} of its iteration over a"
        f" free endpoint that sends as it does: {_named(matters)}.",
        f"It does not: {_named(others)}.",
        f"Sending otherwise saves more than {100 * SAVES_FRAC:.0f} % beyond any endpoint: in-switch reduction for"
        f" {_named(by_switch)}; Themis' order for {_named(by_order)}.",
        "A chip of 2026 has 3 to 4 times the HBM bandwidth of ACE's NPU and no more network outside its node, so that"
        " data-parallel collectives take a small share of HBM and are hidden or bound by links. What is left of the"
        " endpoint's cost are the cores that an SM ring holds beside products: tensor parallelism on the fast links of"
        " a node, where switches or an engine such as ACE give them back, and copy engines in part.",
    )


def _named(found: Sequence[tuple[Compared, float]]) -> str:
    return ", ".join(f"{one.job} on {one.system} ({100 * share:.1f} %)" for one, share in found) or "nothing here"


def beyond_tables(record: Record) -> tuple[Table, ...]:
    names = [mechanism.name for mechanism in MECHANISMS]
    rows = []
    for one in record["rows"]:
        times = {m["mechanism"]: _shown(m["iteration_s"]) for m in one["mechanisms"]}
        cells = (times.get(name, "-") for name in names)
        rows.append((one["workload"], one["system"], *cells, f"{100 * one['endpoint_frac']:.1f}"))
    table = Table(
        title="Beyond ACE: who drives collectives, and what it costs",
        columns=("job", "chip", *(_SHORT.get(name, name) for name in names), "%"),
        rows=tuple(rows),
        align="ll" + "r" * (len(names) + 1),
        notes=("%: what the SM ring costs over a free endpoint that sends as it does, of its iteration", *MEANING),
    )
    verdict = Table(title="Where the endpoint matters in 2026", notes=tuple(f"- {line}" for line in record["verdict"]))
    return table, *(_arbitrated(record, name) for name in ARBITRATED), verdict


ARBITRATED = ("SM ring", "ACE")
HOW = (
    f"static: the best of {NUM_SPLITS} splits (5 to 100 % of the links' rate), kept whether a collective runs or not;"
    " priority: collectives take what their links can use; dynamic: the rate that saves most marginal exposed time."
    " % saved: dynamic over static"
)
_SHORT = {"copy engine": "copy", "in-switch": "switch"}


def _arbitrated(record: Record, mechanism: str) -> Table:
    rows = []
    for one in record["rows"]:
        times_s = {a["arbitration"]: a["iteration_s"] for a in one["arbitrations"] if a["mechanism"] == mechanism}
        saved = 1 - times_s["dynamic"] / times_s["static"]
        rows.append((one["workload"], one["system"], *map(_shown, times_s.values()), f"{100 * saved:.1f}"))
    return Table(
        title=f"Arbitration, {mechanism}: ms an iteration",
        columns=("job", "chip", *ARBITRATIONS, "% saved"),
        rows=tuple(rows),
        align="ll" + "r" * (len(ARBITRATIONS) + 1),
        notes=(HOW,) if mechanism == ARBITRATED[-1] else (),
    )


def _shown(value_s: float) -> str:
    value = value_s / MILLI
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"
