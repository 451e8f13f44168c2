"""A captured model as tables: in brief, its blocks, its supported parallelism, and its operators by kind."""

from __future__ import annotations

from dovetail.report.labels import counted, percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_bytes, format_count, format_rate

MOST_KINDS = 12  # rows of the table of operators; --json has them all


def captured_tables(record: Record) -> tuple[Table, ...]:
    """`record` is a `captured_record`."""
    return (_head(record), _blocks(record), _sharding(record), _operators(record))


def _head(record: Record) -> Table:
    layers = record["num_layers"]
    told = [one["why_not"] for one in record["sharding"] if one["why_not"]]  # below, in a table of its own
    rows = (
        ("parameters", f"{record['num_parameters']:,}"),
        ("sample", f"{record['seq']:,} {record['sample']}{_lengths(record)}" if record["seq"] > 1 else "no positions"),
        (
            "training",
            f"{_flop(record['training_flop'])} per sample: forward {_flop(record['forward_flop'])},"
            f" backward {_flop(record['backward_flop'])}",
        ),
        ("activations", f"{format_bytes(record['activation_bytes'])} per sample in bf16, without recompute"),
        ("layers", f"{layers:,} in {counted(len(record['blocks']), 'block')}"),
        ("recorded", f"{record['recorded_operators']:,} operators with {record['tool']}{_kept(record)}"),
        *(("note", note) for note in record["notes"] if not any(note.endswith(why) for why in told)),
        *(("remark", remark) for remark in record["remarks"]),
    )
    return Table(title=f"captured {record['name']}", rows=rows)


def _lengths(record: Record) -> str:
    return "; other lengths follow" if record["is_any_length"] else "; for this length alone"


def _kept(record: Record) -> str:
    return ", from the cache" if record["is_from_cache"] else ""


def _flop(value_flop: float) -> str:
    return format_rate(value_flop, "FLOP")


def _blocks(record: Record) -> Table:
    rows = tuple(
        (
            block["name"],
            f"{block['repeat']:,}",
            format_count(block["num_parameters"]),
            _flop(block["training_flop"]),
            percent(block["flop_frac"]),
            format_bytes(block["activation_bytes"]),
        )
        for block in record["blocks"]
    )
    columns = ("block", "repeats", "parameters", "training", "share", "activations")
    notes = ("figures are of one repeat over one sample; the share is of all repeats, of the FLOP of a step",)
    return Table(title="Blocks", columns=columns, rows=rows, align="lrrrrr", notes=notes)


def _sharding(record: Record) -> Table:
    rows = tuple((one["axis"], "yes" if one["can_divide"] else "no", _message(one)) for one in record["sharding"])
    return Table(title="Supported parallelism", columns=("parallelism", "can", "how, or why not"), rows=rows)


def _message(one: Record) -> str:
    if not one["can_divide"]:
        return str(one["why_not"])
    must = [f"{limit['what']}={limit['count']:,}" for limit in one["must_divide"]]
    share = f"{percent(one['parameters_frac'])} of the parameters"
    parts = {
        "pipeline": f"cuts between layers, which hold {share}",
        "data": "replicas, and ZeRO",
        "tensor": share,
        "expert": share,
    }
    said = [parts[one["axis"]]] if one["axis"] in parts else []
    return "; ".join([*said, *([f"degrees that divide {', '.join(must)}"] if must else [])])


def _operators(record: Record) -> Table:
    shown = record["operators"][:MOST_KINDS]
    rows = tuple(
        (
            one["kind"],
            f"{one['num']:,}",
            _flop(one["flop"]),
            percent(one["flop_frac"]),
            format_bytes(one["bytes"]),
            percent(one["bytes_frac"]),
        )
        for one in shown
    )
    rest = record["operators"][MOST_KINDS:]
    message = "forward, backward and update over one sample, on the units they run on"
    more = f"; {counted(len(rest), 'more kind')} with {percent(sum(one['bytes_frac'] for one in rest))} of the bytes"
    columns = ("operator", "times", "FLOP", "share", "bytes", "share")
    return Table(
        title="Operators by kind",
        columns=columns,
        rows=rows,
        align="lrrrrr",
        notes=(f"{message}{more if rest else ''}",),
    )
