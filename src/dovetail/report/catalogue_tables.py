"""Catalogue entries as tables: lists in brief, single entries with everything known."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from dovetail.comm.library.on_group import SUMMARIES
from dovetail.report.plain import Record
from dovetail.report.silicon import silicon_tables
from dovetail.report.table import Table
from dovetail.units import GIBI, NANO, TERA, format_bytes, format_count, format_energy_j, format_rate, format_s

_UNSAID: tuple[object, ...] = ("", 0, 0.0, False, None, [], {})
_FORMATS: dict[str, Callable[[float], str]] = {
    "_flop_per_s": lambda v: format_rate(v, "FLOP/s", 2),
    "_bytes_per_s": lambda v: format_rate(v, "B/s", 2),
    "_hz": lambda v: format_rate(v, "Hz", 2),
    "_bytes": lambda v: format_bytes(v),
    "_w": lambda v: f"{v:g} W",
    "_m": lambda v: f"{v / NANO:g} nm",
    "_s": lambda v: format_s(v, 1),
    "_j_per_flop": lambda v: f"{format_energy_j(v)} a FLOP",
    "_j_per_byte": lambda v: f"{format_energy_j(v)} a byte",
}


def models_table(briefs: list[Record]) -> Table:
    rows = tuple(
        (
            brief["name"],
            brief["family"],
            format_count(brief["num_parameters"]),
            f"{brief['seq']:,}" if brief["seq"] > 1 else "-",
            re.split("[,;]", brief["source"])[0],
        )
        for brief in briefs
    )
    columns = ("model", "family", "parameters", "seq", "source")
    return Table(title=f"{len(rows)} models", columns=columns, rows=rows, align="llrrl")


def chips_table(briefs: list[Record]) -> Table:
    rows = tuple(
        (
            brief["name"],
            brief["vendor"],
            str(brief["year"]),
            *_peak(brief["peak_flop_per_s"]),
            f"{brief['hbm_bytes'] / GIBI:.0f}",
            f"{brief['hbm_bytes_per_s'] / TERA:.2f}",
            f"{brief['tdp_w']:.0f}",
        )
        for brief in briefs
    )
    columns = ("chip", "vendor", "year", "TFLOP/s", "in", "HBM GiB", "HBM TB/s", "TDP W")
    notes = ("TFLOP/s are dense tensor peaks",)
    return Table(title=f"{len(rows)} chips", columns=columns, rows=rows, align="llrrlrrr", notes=notes)


def _peak(peak_flop_per_s: dict[str, float]) -> tuple[str, str]:
    dtype = next((d for d in ("bf16", "fp16") if d in peak_flop_per_s), next(iter(peak_flop_per_s)))
    return f"{peak_flop_per_s[dtype] / TERA:,.0f}", dtype


def clusters_table(briefs: list[Record]) -> Table:
    rows = tuple(
        (brief["name"], brief["chip"], f"{brief['num_devices']:,}", _network(brief["dimensions"])) for brief in briefs
    )
    columns = ("cluster", "chip", "devices", "network, innermost first")
    notes = ("devices is the size a cluster is known for; --devices takes another",)
    return Table(title=f"{len(rows)} clusters", columns=columns, rows=rows, align="llrl", notes=notes)


def _network(dimensions: list[Record]) -> str:
    return ", ".join(f"{d['name']} {d['num_devices']:,}" for d in dimensions)


def plans_table(records: list[Record]) -> Table:
    rows = tuple(
        (r["name"], "any" if r["fills_data_parallel"] else f"{r['num_devices']:,}", r["summary"]) for r in records
    )
    notes = ("any: data parallelism fills the cluster at hand",)
    return Table(
        title=f"{len(rows)} plans", columns=("plan", "devices", "what it is"), rows=rows, align="lrl", notes=notes
    )


def entry_tables(record: Record) -> tuple[Table, ...]:
    """One entry of any catalogue, with everything known of it."""
    return {"model": _model_tables, "chip": _chip_tables, "cluster": _cluster_tables, "plan": _plan_tables}[
        record["kind"]
    ](record)


def _model_tables(record: Record) -> tuple[Table, ...]:
    published = record["published_parameters"]
    exactness = "to the last one" if record["is_exact"] else "rounded"
    rows = (
        ("family", record["family"]),
        ("parameters", f"{record['num_parameters']:,}"),
        ("published", f"{published:,.0f}, {exactness}" if published else "no count was published"),
        ("layers", str(record["num_layers"])),
        ("sample", f"{record['seq']:,} {record['sample']} by default" if record["seq"] > 1 else record["sample"]),
        ("batch", f"{record['global_batch']:,} samples per step by default"),
        ("training", f"{format_rate(record['model_flop'], 'FLOP')} per sample, forward and backward"),
        ("source", record["source"]),
        *(("note", note) for note in record["notes"]),
    )
    return (
        Table(title=f"model {record['name']}", rows=rows),
        _blocks_table(record["blocks"]),
        Table(title="Configuration", rows=_said(record["config"]), notes=("what is off, empty or 0 is left out",)),
    )


def _blocks_table(blocks: list[Record]) -> Table:
    rows = tuple(
        (
            block["name"],
            str(block["repeat"]),
            format_count(block["num_parameters"]),
            format_rate(block["forward_flop"], "FLOP"),
            format_rate(block["training_flop"], "FLOP"),
        )
        for block in blocks
    )
    columns = ("block", "repeats", "parameters", "forward", "training")
    return Table(title="Blocks, one repeat over one sample", columns=columns, rows=rows, align="lrrrr")


def _said(config: Record, path: str = "") -> tuple[tuple[str, str], ...]:
    """The settings that say something, parts under dotted names."""
    rows: list[tuple[str, str]] = []
    for key, value in config.items():
        if isinstance(value, dict):
            rows += _said(value, f"{path}{key}.")
        elif isinstance(value, list) and value and all(isinstance(item, dict) and "name" in item for item in value):
            rows += [(f"{path}{key}.{item['name']}", _value(item) or "-") for item in value]
        elif value not in _UNSAID and (path or key != "name"):
            rows.append((f"{path}{key}", _value(value)))
    return tuple(rows)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        said = ((key, item) for key, item in value.items() if key != "name" and item not in _UNSAID)
        return ", ".join(key if item is True else f"{key} {_value(item)}" for key, item in said)
    if isinstance(value, list) and [type(item) for item in value] == [str, int]:  # of a layer pattern
        return f"{value[1]} x {value[0]}"
    if isinstance(value, list):
        runs = [(_value(item), len(list(same))) for item, same in groupby(value)]
        return ", ".join(f"{times} x {word}" if times > 2 else ", ".join([word] * times) for word, times in runs)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _chip_tables(record: Record) -> tuple[Table, ...]:
    """Figures and facts, each with the number of its source, then the sources."""
    title = f"chip {record['name']}: {record['vendor']}, {record['year']}, {record['process']}"
    sources = tuple(dict.fromkeys(entry["source"] for entry in (*record["figures"], *record["facts"])))
    mark = {source: f"[{place}]" for place, source in enumerate(sources, start=1)}
    figures = tuple((f["figure"], _figure(f["figure"], f["value"]), mark[f["source"]]) for f in record["figures"])
    facts = tuple((f["what"], mark[f["source"]], f["value"]) for f in record["facts"])
    return (
        Table(title=title, columns=("figure", "value", "source"), rows=figures, align="lrl"),
        *silicon_tables(record["silicon"]),
        *((Table(title="Also known", columns=("fact", "source", "value"), rows=facts),) if facts else ()),
        Table(title="Sources", rows=tuple((mark[source], source or "none given") for source in sources)),
    )


def _figure(path: str, value: Any) -> str:
    """A figure in the unit its name ends in."""
    name = re.sub(r"_flop_per_s\.\w+$", "_flop_per_s", path)
    for ending, written in _FORMATS.items():
        if name.endswith(ending) and isinstance(value, float):
            return written(value)
    if isinstance(value, list):
        return " x ".join(str(item) for item in value)
    return str(value) if path == "year" else _plain_number(value)


def _plain_number(value: Any) -> str:
    if isinstance(value, bool | str):
        return _value(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _host(host: Record) -> str:
    link, memory = (format_rate(host[key], "B/s") for key in ("link_bytes_per_s", "memory_bytes_per_s"))
    shared = f"{format_rate(host['memory_bytes'], 'B')} of memory at {memory} for {host['num_devices']} devices"
    return f"{shared}, {link} each way to each"


def _library(dimensions: list[Record]) -> str:
    """Whose times collectives take on a cluster of these dimensions."""
    names = dict.fromkeys(dimension["library"] for dimension in dimensions)
    return ", ".join(f"as {SUMMARIES[name]}" if name else "by a share of the links" for name in names)


def _cluster_tables(record: Record) -> tuple[Table, ...]:
    rows = (
        ("chip", record["chip"]),
        ("devices", f"{record['num_devices']:,}"),
        *((("summary", record["summary"]),) if record["summary"] else ()),
        *(("host", _host(host)) for host in record["hosts"]),
        ("collectives", _library(record["dimensions"])),
    )
    dimensions = tuple(
        (
            d["name"],
            d["kind"],
            f"{d['num_devices']:,}",
            format_rate(d["bandwidth_bytes_per_s"], "B/s"),
            format_s(d["latency_s"], 1),
            f"{d['oversubscription']:g}",
        )
        for d in record["dimensions"]
    )
    columns = ("dimension", "kind", "devices", "a device sends", "latency", "oversubscribed")
    sources = tuple((s["figure"], s["source"]) for s in record["sources"])
    return (
        Table(title=f"cluster {record['name']}", rows=rows),
        Table(title="Network, innermost first", columns=columns, rows=dimensions, align="llrrrr"),
        Table(title="Sources", rows=sources),
    )


def _plan_tables(record: Record) -> tuple[Table, ...]:
    plan = record["plan"]
    size = "any number that it divides" if record["fills_data_parallel"] else f"{record['num_devices']:,}"
    about = (("summary", record["summary"]), ("devices", size), ("source", record["source"]))
    rows = tuple((key, _value(value)) for key, value in plan.items() if not isinstance(value, dict))
    if record["fills_data_parallel"]:
        rows = tuple((key, "any" if key == "data_parallel" else value) for key, value in rows)
    overlap = tuple((f"overlap.{key}", _value(value)) for key, value in plan["overlap"].items())
    return (
        Table(title=f"plan {record['name']}", rows=about),
        Table(title="Decisions", rows=tuple((k, v or "-") for k, v in (*rows, *overlap))),
    )
