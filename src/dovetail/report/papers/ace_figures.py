"""The figures of a reproduced paper as SVG: sweeps as lines, iterations as stacked bars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from dovetail.report.plain import Record
from dovetail.units import GIGA, MILLI

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 460, 280, 64, 40, 130, 52
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00")
LIGHT = "#cfcfcf"
NUM_MARKS = 5
PROFILED_DEVICES = 64
ROUND_TOLERANCE = 1e-9
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between marks, times a power of ten
Line = tuple[str, Sequence[tuple[float, float]]]


def ace_figures(record: Record) -> dict[str, str]:
    """File name to SVG, for every sweep and every workload of `ace_record`."""
    figures = {
        "ace-memory.svg": _lines(_pairs(record["by_memory"], GIGA), "memory bandwidth, GB/s", "network, GB/s"),
        "ace-sms.svg": _lines(_pairs(record["by_sms"], 1), "SMs for communication", "network, GB/s"),
        "ace-sram-fsms.svg": _lines(_grid(record["grid"]), "FSMs", "network, GB/s"),
    }
    for one in record["workloads"]:
        figures[f"ace-{one['workload']}.svg"] = _bars(one)
        figures[f"ace-{one['workload']}-links.svg"] = _lines(_profile(one), "share of the iteration", "links used, %")
    return figures


def _profile(one: Record) -> tuple[Line, ...]:
    """Utilisation over an iteration on 64 NPUs: the best baseline's and ACE's."""
    size = next(size for size in one["sizes"] if size["num_devices"] == PROFILED_DEVICES)
    lines = []
    for c in size["configurations"]:
        if c["configuration"] in (one["best_baseline"], "ACE"):
            parts = c["profile_frac"]
            points = [((index + 0.5) / len(parts), 100 * part) for index, part in enumerate(parts)]
            lines.append((c["configuration"], points))
    return tuple(lines)


def _pairs(points: Sequence[Record], unit: float) -> tuple[Line, ...]:
    return tuple(
        (label, [(point["at"] / unit, point[key] / GIGA) for point in points])
        for label, key in (("baseline", "baseline_bytes_per_s"), ("ACE", "ace_bytes_per_s"))
    )


def _grid(points: Sequence[Record]) -> tuple[Line, ...]:
    sizes = sorted({point["sram_bytes"] for point in points})
    return tuple(
        (
            f"{size / sizes[0]:.0f} MiB",
            [(p["num_fsms"], p["network_bytes_per_s"] / GIGA) for p in points if p["sram_bytes"] == size],
        )
        for size in sizes
    )


def _frame(title: str, body: Iterator[str]) -> str:
    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n<g transform="translate({LEFT},{TOP})">\n'
    )
    return head + "\n".join(body) + "\n</g>\n</svg>\n"


def _rises(most: float, words: str) -> Iterator[str]:
    """The vertical axis from 0 to `most`."""
    for tick in range(NUM_MARKS + 1):
        y = HEIGHT * (1 - tick / NUM_MARKS)
        yield f'<path d="M0 {y:.1f}H{WIDTH}" stroke="#e4e4e4"/>'
        yield f'<text x="-8" y="{y + 4:.1f}" text-anchor="end" fill="#444444">{most * tick / NUM_MARKS:.3g}</text>'
    yield f'<text transform="translate(-48,{HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(words)}</text>'


def _legend(labels: Sequence[tuple[str, str]]) -> Iterator[str]:
    for index, (label, colour) in enumerate(labels):
        y = 12 + 18 * index
        yield f'<rect x="{WIDTH + 12}" y="{y - 5}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{WIDTH + 27}" y="{y + 4}">{escape(label)}</text>'


def _end(most: float) -> float:
    """The end of an axis that holds `most`, with NUM_MARKS round steps up to it."""
    step = most / NUM_MARKS
    power = 10.0 ** math.floor(math.log10(step))
    return NUM_MARKS * power * next(mark for mark in STEPS if mark * power >= step * (1 - ROUND_TOLERANCE))


def _lines(lines: tuple[Line, ...], across: str, up: str) -> str:
    return _frame(f"{up} against {across}", _line_parts(lines, across, up))


def _line_parts(lines: tuple[Line, ...], across: str, up: str) -> Iterator[str]:
    most_x = _end(max(x for _, points in lines for x, _ in points))
    most_y = _end(max(y for _, points in lines for _, y in points))
    yield from _rises(most_y, up)
    for tick in range(NUM_MARKS + 1):
        x = WIDTH * tick / NUM_MARKS
        yield f'<text x="{x:.1f}" y="{HEIGHT + 20}" text-anchor="middle">{most_x * tick / NUM_MARKS:.3g}</text>'
    for (_, points), colour in zip(lines, COLOURS, strict=False):
        path = " ".join(f"{WIDTH * x / most_x:.1f},{HEIGHT * (1 - y / most_y):.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield from _legend([(label, colour) for (label, _), colour in zip(lines, COLOURS, strict=False)])
    yield f'<text x="{WIDTH / 2}" y="{HEIGHT + 42}" text-anchor="middle">{escape(across)}</text>'


def _bars(one: Record) -> str:
    return _frame(f"{one['workload']}: compute and exposed communication", _bar_parts(one))


def _bar_parts(one: Record) -> Iterator[str]:
    """A group a size, a bar a configuration: compute in colour, exposed communication grey on top."""
    sizes = one["sizes"]
    names = [c["configuration"] for c in sizes[0]["configurations"]]
    most_s = MILLI * _end(max(c["iteration_s"] for size in sizes for c in size["configurations"]) / MILLI)
    yield from _rises(most_s / MILLI, "iteration, ms")
    step = WIDTH / len(sizes)
    width = 0.8 * step / len(names)
    for group, size in enumerate(sizes):
        for index, c in enumerate(size["configurations"]):
            x = step * (group + 0.1) + width * index
            compute, whole = (HEIGHT * c[key] / most_s for key in ("compute_s", "iteration_s"))
            size_of = f'width="{0.9 * width:.1f}"'
            yield f'<rect x="{x:.1f}" y="{HEIGHT - whole:.1f}" {size_of} height="{whole:.1f}" fill="{LIGHT}"/>'
            yield (
                f'<rect x="{x:.1f}" y="{HEIGHT - compute:.1f}" {size_of} height="{compute:.1f}" '
                f'fill="{COLOURS[index % len(COLOURS)]}"/>'
            )
        words = f"{size['num_devices']} NPUs: {size['speedup']:.2f}x"
        yield f'<text x="{step * (group + 0.5):.1f}" y="{HEIGHT + 20}" text-anchor="middle">{words}</text>'
    yield from _legend([*zip(names, COLOURS, strict=False), ("exposed", LIGHT)])
    yield f'<text x="0" y="-14">{escape(one["workload"])}: ACE over {escape(one["best_baseline"])}</text>'
