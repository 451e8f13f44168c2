"""WHAM's comparison, ours beside the paper's; tables are made of its record, so that a page can be written from one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dovetail.papers.verdicts import mean
from dovetail.papers.wham.claims import claims, holds, mean_gap_frac
from dovetail.papers.wham.searches import Searched
from dovetail.papers.wham.shared import Mosaic, OneForAll
from dovetail.papers.wham.study import READINGS, EveryDesign, HandTuned, RealPart, Wham, WhamModel, WhamStudy
from dovetail.report.labels import percent
from dovetail.report.mined_stages import cores_record
from dovetail.report.papers.claims import claim_record, claims_table, mapper_records
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.mining.answers import ChipAnswer
from dovetail.search.mining.stages import ByStage

READING = "a x (b x c) + d x e: a tensor cores of b rows and c columns, d vector cores of e lanes"
NOTES = (
    "Batches and cuts are ours, as the paper's are not published; ResNeXt-101 is 32x8d, GPT2-XL the catalogue's"
    " gpt2-1.5b. Means are geometric.",
    "Every chip has the memory, clock, links and node of WHAM's TPU v2 (16 GiB at 700 GB/s, 32 MiB, 700 MHz,"
    " 16-bit words), PHAZE's TPU v4 as it is excepted. Area and power are of our silicon model, not WHAM's.",
    "Searches are compared in designs looked at until one is within 1 % of the best; benchmarks/convergence.py measures"
    " them in CPU seconds.",
    "All tables below the claims are by our mapper; --json has the models by both.",
)


def wham_record(found: Wham) -> Record:
    study = found.ours
    return {
        "paper": "WHAM",
        "holds": holds(found),
        "mappers": mapper_records(),
        "area_limit_mm2": study.limits.area_mm2,
        "power_limit_w": study.limits.power_w,
        "num_designs": study.num_designs,
        "claims": [claim_record(claim) for claim in claims(found)],
        "mean_gap_frac": mean_gap_frac(study),
        "models": [_model_record(study, model) for model in study.models],
        "common_design": _shared_record(study, study.common_design) if study.common_design else None,
        "mosaics": [_mosaic_record(one) for one in study.mosaics],
        "sizes": [{"num_multipliers": most, "times_slower": slower} for most, slower in study.by_multipliers],
        "by_paper_mapper": [_model_record(found.by_paper_mapper, model) for model in found.by_paper_mapper.models],
    }


def _model_record(study: WhamStudy, model: WhamModel) -> Record:
    work, plan = model.task.workload, model.task.plan
    return {
        "model": model.task.name,
        "global_batch": work.global_batch,
        "seq": work.seq,
        "num_devices": plan.num_devices,
        "num_stages": plan.pipeline_parallel,
        "best": _searched_record(model.best) | {"gain": model.gain(model.reference)},
        "per_watt": _searched_record(model.per_watt) | {"gain": model.per_watt_gain},
        "within_base_limits": _searched_record(model.within_base_limits) | {"gain": model.own_limits_gain},
        "hand_tuned": [_tuned_record(study, model, tuned) for tuned in model.hand_tuned],
        "inference": [
            {"interpretation": name, **_searched_record(chosen), "times_slower": chosen.step_s / model.best.step_s}
            for name, chosen in model.inference
        ],
        "real": _real_record(model.real),
        **_heuristics_record(model),
        "every_design": _every_record(model.every) if model.every else None,
        "is_confirmed": model.is_confirmed,
    }


def _real_record(real: RealPart) -> Record:
    return {
        "as_is": _answer_record(real.as_is),
        "best": _searched_record(real.best) | {"gain": real.gain},
        "per_watt": _searched_record(real.per_watt) | {"gain": real.per_watt_gain},
    }


def _heuristics_record(model: WhamModel) -> Record:
    """Nothing of them where they were not run."""
    found = model.heuristics
    if found is None:
        return {"critical_path": None, "critical_path_exact": None, "convergence": None}
    near = found.convergence
    return {
        "critical_path": _searched_record(found.grown) | {"gap_frac": model.gap_frac(found.grown)},
        "critical_path_exact": _searched_record(found.counted) | {"gap_frac": model.gap_frac(found.counted)},
        "convergence": {"critical_path": near.critical_path, "exact": near.exact, "bayes": near.bayes},
    }


def _tuned_record(study: WhamStudy, model: WhamModel, tuned: HandTuned) -> Record:
    return {
        "chip": tuned.name,
        "fits": tuned.fits,
        **{
            key: _answer_record(answer) | {"gain": model.gain(answer), "is_within_limits": answer.keeps(study.limits)}
            for key, answer in (("as_is", tuned.as_is), ("rebuilt", tuned.rebuilt))
        },
    }


def _answer_record(answer: ChipAnswer) -> Record:
    return {
        **cores_record(answer.design),
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "step_s": answer.jobs[0].step_s,
    }


def _searched_record(found: Searched) -> Record:
    return _answer_record(found.answer) | {
        "num_evaluated": found.num_evaluated,
        "num_scheduled": found.num_scheduled,
        "is_proven": found.is_proven,
    }


def _every_record(every: EveryDesign) -> Record:
    return {
        "num_scheduled": every.num_designs,
        "best": cores_record(every.design) | {"step_s": every.step_s},
        "per_watt": cores_record(every.per_watt_design),
    }


def _shared_record(study: WhamStudy, shared: OneForAll) -> Record:
    answer = shared.answer
    return {
        **cores_record(answer.design),
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "gain": shared.gain,
        "every_gain": shared.every_gain,
        "num_scheduled": shared.num_scheduled,
        "is_proven": shared.is_proven,
        "jobs": [
            {"model": model.task.name, "step_s": job.step_s, "times_slower": slower}
            for model, job, slower in zip(study.models, answer.jobs, shared.slower, strict=True)
        ],
    }


def _mosaic_record(one: Mosaic) -> Record:
    return {
        "model": one.model,
        "one_design": cores_record(one.mosaic.common.designs[0]) | {"step_s": one.mosaic.common.step_s},
        "mosaic": _by_stage_record(one.mosaic),
        "pooled": _by_stage_record(one.pooled),
    }


def _by_stage_record(found: ByStage) -> Record:
    return {
        "step_s": found.chosen.step_s,
        "gain": 1 + found.gain_frac,
        "mean_area_mm2": found.chosen.mean_area_mm2,
        "mean_power_w": found.chosen.mean_power_w,
        "kinds": [
            {"num_stages": len(kind.stages), **cores_record(kind.chosen.design), "area_mm2": kind.chosen.area_mm2}
            for kind in found.kinds
        ],
    }


def wham_tables(record: Record) -> tuple[Table, ...]:
    """The answer first; `record` as `wham_record` gives it."""
    tables = [_claims(record), _by_mapper(record), _best(record), _tuned(record), _per_watt(record), _inference(record)]
    if record["mean_gap_frac"] is not None:
        tables += [_optimality(record), _convergence(record)]
    if len(record["models"]) > 1 and record["common_design"]:
        tables.append(_shared(record))
    if record["mosaics"]:
        tables.append(_mosaics(record))
    if record["sizes"]:
        tables.append(_sizes(record))
    return (*tables, Table(title="Notes", notes=tuple(f"- {note}" for note in NOTES)))


def _claims(record: Record) -> Table:
    limits = f"{record['area_limit_mm2']:g} mm2 and {record['power_limit_w']:g} W"
    num = len(record["models"])
    title = f"WHAM's claims beside ours: the best chip within {limits}, {num} of its models; times as good"
    return claims_table(title, "WHAM", record["claims"])


def _by_mapper(record: Record) -> Table:
    """What a model gains, by the paper's mapper and by ours."""
    picks: list[Callable[[Record], float]] = [
        lambda model: float(model["within_base_limits"]["gain"]),
        lambda model: float(model["real"]["best"]["gain"]),
        lambda model: float(model["per_watt"]["gain"]),
        lambda model: float(model["inference"][0]["times_slower"]),
    ]
    pairs = list(zip(record["by_paper_mapper"], record["models"], strict=True))
    rows = [
        (ours["model"], *(f"{pick(one):.2f}" for pick in picks for one in (theirs, ours))) for theirs, ours in pairs
    ]
    means = [
        f"{mean(pick(model) for model in models):.2f}"
        for pick in picks
        for models in (record["by_paper_mapper"], record["models"])
    ]
    return Table(
        title="The same by model, the paper's mapper before ours: throughput at equal mm2 and W over its TPU v2 and"
        " over a real one, throughput/TDP, and over the chip searched for inference by one sample",
        columns=("model", "its", "ours", "real, its", "ours", "/TDP, its", "ours", "inf., its", "ours"),
        rows=(*rows, ("geometric mean", *means)),
        align="l" + "r" * 8,
    )


def _convergence(record: Record) -> Table:
    def counts(model: Record) -> tuple[str, ...]:
        near = model["convergence"]
        return f"{near['bayes']:.0f}", f"{near['critical_path']:,}", f"{near['exact']:,}"

    pairs = zip(record["by_paper_mapper"], record["models"], strict=True)
    return Table(
        title="Designs looked at until one is within 1 % of the best, the paper's mapper before ours",
        columns=("model", "Bayesian", "WHAM's", "exact", "Bayesian", "WHAM's", "exact"),
        rows=tuple((ours["model"], *counts(theirs), *counts(ours)) for theirs, ours in pairs),
        align="lrrrrrr",
    )


def cores(design: Record) -> str:
    tensor = f"{design['num_tensor_cores']} x ({design['num_rows']}x{design['num_cols']})"
    return f"{tensor} + {design['num_vector_cores']} x {design['num_lanes']}"


def _silicon(design: Record) -> tuple[str, str, str]:
    return cores(design), f"{design['area_mm2']:.0f}", f"{design['power_w']:.0f}"


def _best(record: Record) -> Table:
    rows = [
        (
            model["model"],
            str(model["global_batch"]),
            *_silicon(model["best"]),
            f"{model['best']['gain']:.2f}",
        )
        for model in record["models"]
    ]
    rows.append(("geometric mean", "", "", "", "", f"{_mean(record, lambda model: model['best']['gain']):.2f}"))
    return Table(
        title="The best chip for each model by throughput, and its gain over WHAM's TPU v2",
        columns=("model", "batch", "cores", "mm2", "W", "gain"),
        rows=tuple(rows),
        align="lrlrrr",
        notes=(READING,),
    )


def _mean(record: Record, value: Callable[[Record], float]) -> float:
    return mean(value(model) for model in record["models"])


def _tuned(record: Record) -> Table:
    picks = [
        _tuned_gain("wham-tpuv2", "as_is"),
        lambda model: float(model["within_base_limits"]["gain"]),
        _tuned_gain("nvdla-like", "as_is"),
        _tuned_gain("phaze-tpuv4", "rebuilt"),
        _tuned_gain("phaze-tpuv4", "as_is"),
    ]
    tuned = {one["chip"]: one for one in record["models"][0]["hand_tuned"]}
    return Table(
        title="Throughput of the best chip over hand-tuned ones",
        columns=("model", "tpuv2", "in its mm2, W", "nvdla", "tpuv4's cores", "tpuv4"),
        rows=_ratio_rows(record, picks),
        align="lrrrrr",
        notes=(
            f"tpuv2: {_taken(tuned['wham-tpuv2']['as_is'])}. In its mm2, W: the best chip within these, not the limits",
            f"nvdla: {_taken(tuned['nvdla-like']['as_is'])}",
            f"tpuv4's cores on the memory, clock and node of tpuv2: {_taken(tuned['phaze-tpuv4']['rebuilt'])}",
            f"tpuv4 as it is: {_taken(tuned['phaze-tpuv4']['as_is'])}, but at 7 nm, 1.05 GHz, 1,228 GB/s and 128 MiB,"
            " which no mined chip may have; its one link of 4 GiB/s makes tensor-parallel GPT-3 slow",
        ),
    )


def _tuned_gain(chip: str, way: str) -> Callable[[Record], float]:
    return lambda model: next(float(one[way]["gain"]) for one in model["hand_tuned"] if one["chip"] == chip)


def _taken(one: Record) -> str:
    kept = "within the limits" if one["is_within_limits"] else "beyond the limits"
    return f"{cores(one)}, {one['area_mm2']:.0f} mm2 and {one['power_w']:.0f} W, {kept}"


def _ratio_rows(record: Record, picks: Sequence[Callable[[Record], float]]) -> tuple[tuple[str, ...], ...]:
    rows = [(model["model"], *(f"{pick(model):.2f}" for pick in picks)) for model in record["models"]]
    return (*rows, ("geometric mean", *(f"{_mean(record, pick):.2f}" for pick in picks)))


def _per_watt(record: Record) -> Table:
    rows = [
        (model["model"], *_silicon(model["per_watt"]), f"{model['per_watt']['gain']:.2f}") for model in record["models"]
    ]
    gains = [model["per_watt"]["gain"] for model in record["models"]]
    rows.append(("geometric mean; most", "", "", "", f"{mean(gains):.2f}; {max(gains):.2f}"))
    return Table(
        title="The best chip by throughput/TDP, and its gain over that of WHAM's TPU v2",
        columns=("model", "cores", "mm2", "W", "gain"),
        rows=tuple(rows),
        align="llrrr",
        notes=("TDP is the power with everything busy, of our power model for both",),
    )


def _inference(record: Record) -> Table:
    names = [name for name, *_ in READINGS]
    picks = [_reading_slower(place) for place in range(len(names))]
    ratios = _ratio_rows(record, picks)
    chosen = [cores(model["inference"][0]) for model in record["models"]]
    rows = tuple((row[0], told, *row[1:]) for row, told in zip(ratios, [*chosen, ""], strict=True))
    return Table(
        title="Chips searched for inference, put to training: times slower than the best for training",
        columns=("model", "cores, by one sample", *names),
        rows=rows,
        align="ll" + "r" * len(names),
        notes=(
            "the forward pass alone is searched by: of one sample (least latency), of the training batch, and of one"
            " sample by throughput/TDP; all within the same limits. One sample is nearest to how Spotlight searches;"
            " the others tell what the batch and the metric change",
        ),
    )


def _reading_slower(place: int) -> Callable[[Record], float]:
    return lambda model: float(model["inference"][place]["times_slower"])


def _optimality(record: Record) -> Table:
    rows = tuple(
        (
            model["model"],
            f"{model['best']['num_scheduled']:,}",
            f"{model['critical_path']['num_evaluated']:,}",
            _gap(model["critical_path"]["gap_frac"]),
            f"{model['critical_path_exact']['num_evaluated']:,}",
            _gap(model["critical_path_exact"]["gap_frac"]),
            _verdict(model),
        )
        for model in record["models"]
    )
    every = record["models"][0]["every_design"]
    of_every = f"; {every['num_scheduled']:,} keep the limits, each scheduled for each model" if every else ""
    return Table(
        title=f"How good heuristics are: designs looked at of {record['num_designs']:,}, and gaps to the best of all",
        columns=("model", "exact", "heuristic", "gap", "its exact mode", "gap", "exact is"),
        rows=rows,
        align="lrrrrrl",
        notes=(
            f"exact schedules until bounds prove the best{of_every}. Heuristic and exact mode are WHAM's; what they ask"
            " for beyond a limit counts",
            f"gap of the heuristic: {_gap(record['mean_gap_frac'])} on the mean",
        ),
    )


def _gap(gap_frac: float) -> str:
    """Sums of the same seconds in another order differ by less than shows, and so from either side."""
    return percent(round(gap_frac, 6) + 0.0, 2)


def _verdict(model: Record) -> str:
    if not model["is_confirmed"]:
        return "NOT the best"
    return "best of every" if model["every_design"] else "proven"


def _shared(record: Record) -> Table:
    shared = record["common_design"]
    rows = tuple((job["model"], percent(job["times_slower"] - 1)) for job in shared["jobs"])
    return Table(
        title=f"One chip for all: {cores(shared)}, {shared['area_mm2']:.0f} mm2, {shared['power_w']:.0f} W;"
        f" {shared['gain']:.2f} times WHAM's TPU v2 on the mean",
        columns=("model", "slower than on its own best"),
        rows=rows,
        align="lr",
    )


def _mosaics(record: Record) -> Table:
    rows = tuple(
        (one["model"], way, f"{one[way]['gain']:.3f}", f"{one[way]['mean_area_mm2']:.0f}", _kinds(one[way]["kinds"]))
        for one in record["mosaics"]
        for way in ("mosaic", "pooled")
    )
    return Table(
        title="A chip for each kind of stage, over one design for all stages",
        columns=("model", "", "gain", "mm2", "stages: cores"),
        rows=rows,
        align="llrrl",
        notes=(
            "mosaic: every die within the limits; pooled: limits kept on the mean over all devices, so that a stage may"
            " take what another leaves; mm2: the mean of a die",
        ),
    )


def _kinds(kinds: list[Record]) -> str:
    if len({cores(kind) for kind in kinds}) == 1:
        return f"all: {cores(kinds[0])}"
    return "; ".join(f"{kind['num_stages']}: {cores(kind)}" for kind in kinds)


def _sizes(record: Record) -> Table:
    rows = tuple(_size_rows(record["sizes"]))
    return Table(
        title="The best chips of so many multipliers at most, over the best of all, on the mean",
        columns=("multipliers", "times slower"),
        rows=rows,
        align="rr",
    )


def _size_rows(sizes: Iterable[Record]) -> Iterable[tuple[str, str]]:
    return ((f"{one['num_multipliers']:,}", f"{one['times_slower']:.2f}") for one in sizes)
