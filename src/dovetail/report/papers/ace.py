"""A reproduced paper as plain data for JSON, and as tables with the paper's number beside ours."""

from __future__ import annotations

from dovetail.papers.ace import PAPER_MM2, PAPER_W, AceStudy, Point, Trained
from dovetail.papers.ace_sweep import PAPER, Cell, average_and_maximum
from dovetail.papers.check import Check
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import GIGA, MEBI, MILLI

UTILISATION = (
    "utilisation is bytes sent over what the links could carry while a collective is outstanding. The best baseline is"
    " one configuration a workload, the one with the least time over all sizes, for speedup and utilisation alike. The"
    " paper's sentence defines neither. With another best baseline for each size utilisation would be {own:.2f} on"
    " average; as bytes over the whole iteration, {whole:.2f}. Both were tried before this reading was chosen. The"
    " average meets the paper's only as a whole: it is about 2.5 for DLRM, over CompOpt, and about 1 or less for the"
    " others, over NoOverlap, which fills the links while it sends."
)
DIFFERENCES = (
    "ResNet-50's scale is not physical: at 787 GFLOP an iteration it asks for about 1 PFLOP/s, 8 times the NPU's peak."
    " The paper's NPU must have computed much faster against its network than its stated parameters say.",
    "One scale meets two numbers per workload, so that one of the two tests anything. DLRM's is hardly determined:"
    " 0.5 to 1.0 and 1.3 to 1.65 all meet both, so that no scale (1.0) would do, with a worse average.",
    "GNMT's sentence length is the catalogue's, 50; the paper does not state its own.",
    "The improved DLRM loop gains nothing here: the exchange it does not wait for is already hidden.",
    "Power is 9 % low. Area meets the paper as one constant, the share of an SRAM macro that is cells, was set so.",
)


DEALT = (
    "T3 and T4 run one ACE: 4 MiB in partitions, 16 FSMs, 4 adders and 4 banks. The paper deals SRAM by phase bandwidth"
    " x chunk size. We take the bandwidth at which a phase runs while one payload streams through all. The bandwidth of"
    " its links, which we tried first, starves the ring of 8: on 128 NPUs ACE then fills the links to {filled:.0f} % of"
    " what it does here, utilisation over the best baseline is {used:.2f} on average, and the knee lies at 8 MB. Scales"
    " fitted for that meet the speedups, but not utilisation (1.27), and leave ResNet-50 slower than CommOpt on 128.",
    "The paper draws its knee without a number: ours is the least engine that reaches 85 % of the largest.",
)


def ace_record(study: AceStudy) -> Record:
    return {
        "paper": "ACE",
        "holds": study.holds,
        "checks": [_check_record(check) for check in study.checks],
        "volumes": [
            {
                "num_devices": one.num_devices,
                "shape": one.shape,
                "sent_per_byte": one.sent_per_byte,
                "across_per_byte": one.across_per_byte,
                "injection_bytes_per_s": one.injection_bytes_per_s,
                "baseline_reads_bytes_per_s": one.baseline_reads_bytes_per_s,
                "ace_reads_bytes_per_s": one.ace_reads_bytes_per_s,
                "bound_by": list(one.bound_by),
            }
            for one in study.volumes
        ],
        "by_memory": [_point_record(point, GIGA) for point in study.by_memory],
        "by_sms": [_point_record(point, 1) for point in study.by_sms],
        "grid": [{"sram_bytes": sram, "num_fsms": n, "network_bytes_per_s": rate} for sram, n, rate in study.grid],
        "area_mm2": study.area_mm2,
        "power_w": study.power_w,
        "workloads": [_trained_record(one) for one in study.trained],
        "notes": [_utilisation_note(study), *_dealt_notes(study), *DIFFERENCES],
    }


def _utilisation_note(study: AceStudy) -> str:
    cells = [cell for one in study.trained for cell in one.scaled.cells]
    own = [cell.utilisation_gain(cell.best) for cell in cells]
    whole = [cell.gain(cell.best) for cell in cells]
    return UTILISATION.format(own=average_and_maximum(own)[0], whole=average_and_maximum(whole)[0])


def _dealt_notes(study: AceStudy) -> tuple[str, ...]:
    """What the other reading of the paper's rule would give, at the same scales."""
    used = [gain for one in study.trained for gain in one.by_link.utilisation_gains]
    last = [(one.by_link.cells[-1].of("ACE"), one.scaled.cells[-1].of("ACE")) for one in study.trained]
    filled, _ = average_and_maximum([other.utilisation_frac / ours.utilisation_frac for other, ours in last])
    rule, knee = DEALT
    return rule.format(filled=100 * filled, used=average_and_maximum(used)[0]), knee


def _check_record(check: Check) -> Record:
    return {
        "what": check.what,
        "ours": check.ours,
        "reported": check.paper,
        "error_frac": check.error_frac,
        "within_frac": check.within_frac,
        "holds": check.holds,
    }


def _point_record(point: Point, unit: float) -> Record:
    return {
        "at": point.at * unit,
        "baseline_bytes_per_s": point.baseline_bytes_per_s,
        "ace_bytes_per_s": point.ace_bytes_per_s,
    }


def _trained_record(one: Trained) -> Record:
    return {
        "workload": one.name,
        "compute_scale": one.compute_scale,
        "gradient_bytes": one.gradient_bytes,
        "all_to_all_bytes": one.all_to_all_bytes,
        "best_baseline": one.scaled.best,
        "reported_speedup": list(PAPER[one.name]),
        "speedup": list(average_and_maximum(one.scaled.gains)),
        "speedup_unscaled": list(average_and_maximum(one.unscaled.gains)),
        "speedup_by_link": list(average_and_maximum(one.by_link.gains)),
        "speedup_pooled": list(average_and_maximum(one.pooled.gains)),
        "speedup_improved": list(average_and_maximum(one.improved.gains)) if one.improved else [],
        "sizes": [_cell_record(cell, one.scaled.best) for cell in one.scaled.cells],
    }


def _cell_record(cell: Cell, best: str) -> Record:
    return {
        "num_devices": cell.num_devices,
        "speedup": cell.gain(best),
        "utilisation_gain": cell.utilisation_gain(best),
        "configurations": [
            {
                "configuration": name,
                "iteration_s": it.iteration_s,
                "compute_s": it.compute_s,
                "exposed_s": it.exposed_s,
                "utilisation_frac": it.utilisation_frac,
                "profile_frac": list(it.profile_frac),
            }
            for name, it in cell.iterations
        ],
    }


def ace_tables(record: Record) -> tuple[Table, ...]:
    """Checks, volumes, sweeps and iterations; `record` as `ace_record` gives it."""
    return (
        _checks(record),
        _volumes(record),
        *(_sweep(record, key) for key in ("by_memory", "by_sms")),
        _grid(record),
        *(_iterations(one) for one in record["workloads"]),
        Table(title="What remains different", notes=tuple(f"- {note}" for note in record["notes"])),
    )


def _checks(record: Record) -> Table:
    rows = tuple(
        (
            one["what"],
            _number(one["ours"]),
            _number(one["reported"]),
            f"{100 * one['error_frac']:+.1f} %" if one["within_frac"] else "",
            "ok" if one["holds"] else "MISSED",
        )
        for one in record["checks"]
    )
    note = (
        "T1 to T3 as the paper has them, nothing fitted (the knees of T3 by thresholds of ours); T4 within 5 %,"
        " one compute scale per workload"
    )
    return Table(
        title="ACE: ours beside the paper's",
        columns=("what", "ours", "paper", "error", ""),
        rows=rows,
        align="lrrr",
        notes=(note,),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _volumes(record: Record) -> Table:
    rows = tuple(
        (
            str(one["num_devices"]),
            one["shape"],
            f"{one['sent_per_byte']:.4f}",
            f"{one['injection_bytes_per_s'] / GIGA:.1f}",
            f"{one['baseline_reads_bytes_per_s'] / GIGA:.1f}",
            f"{one['ace_reads_bytes_per_s'] / GIGA:.1f}",
            f"{one['across_per_byte']:.1f}",
            "/".join(one["bound_by"]),
        )
        for one in record["volumes"]
    )
    return Table(
        title="Bytes sent per payload byte, and GB/s when the links are full",
        columns=("NPUs", "torus", "S", "sent", "reads", "ACE", "a2a", "bound by"),
        rows=rows,
        align="rlrrrrr",
    )


def _sweep(record: Record, key: str) -> Table:
    unit, words, said = {
        "by_memory": (GIGA, "memory GB/s", "paper: baseline rises by 1/1.5 up to 450, ACE is full near 128"),
        "by_sms": (1, "SMs", "paper: baseline full near 6, ACE flat"),
    }[key]
    rows = tuple(
        (f"{p['at'] / unit:.0f}", f"{p['baseline_bytes_per_s'] / GIGA:.1f}", f"{p['ace_bytes_per_s'] / GIGA:.1f}")
        for p in record[key]
    )
    title = f"Network GB/s on 4x4x4 against {words}"
    return Table(title=title, columns=(words, "baseline", "ACE"), rows=rows, align="rrr", notes=(said,))


def _grid(record: Record) -> Table:
    fsms = sorted({one["num_fsms"] for one in record["grid"]})
    sizes = sorted({one["sram_bytes"] for one in record["grid"]})
    rates = {(one["sram_bytes"], one["num_fsms"]): one["network_bytes_per_s"] for one in record["grid"]}
    rows = tuple((f"{size / MEBI:.0f}", *(f"{rates[size, n] / GIGA:.1f}" for n in fsms)) for size in sizes)
    area, power = f"{record['area_mm2']:.2f} mm2 (paper {PAPER_MM2})", f"{record['power_w']:.2f} W (paper {PAPER_W})"
    return Table(
        title="Network GB/s of ACE by SRAM and FSMs: a 64 MiB all-reduce on 4x4x4, event by event",
        columns=("SRAM MiB", *(f"{n} FSMs" for n in fsms)),
        rows=rows,
        align="r" * (len(fsms) + 1),
        notes=("paper: knee at 4 MB and 16 FSMs", f"at 28 nm: area {area}, power {power}"),
    )


def _iterations(one: Record) -> Table:
    names = [c["configuration"] for c in one["sizes"][0]["configurations"]]
    rows = tuple(
        (
            str(size["num_devices"]),
            *(f"{c['compute_s'] / MILLI:.2f}+{abs(c['exposed_s']) / MILLI:.2f}" for c in size["configurations"]),
            f"{size['speedup']:.2f}",
            f"{size['utilisation_gain']:.2f}",
        )
        for size in one["sizes"]
    )
    pairs = [("unscaled", "unscaled"), ("by_link", "SRAM dealt by links"), ("pooled", "SRAM in one pool")]
    pairs += [("improved", "improved loop")]
    told = [f"{words} {_pair(one['speedup_' + key])}" for key, words in pairs if one["speedup_" + key]]
    return Table(
        title=f"{one['workload']}: compute + exposed ms, compute times x {one['compute_scale']:.4g}",
        columns=("NPUs", *names, "ACE", "util"),
        rows=rows,
        align="r" * (len(names) + 3),
        notes=(
            f"ACE over {one['best_baseline']}, average and maximum: {_pair(one['speedup'])}, paper"
            f" {_pair(one['reported_speedup'])}; util is ACE's link utilisation over the same",
            "; ".join(told),
        ),
    )


def _pair(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)
