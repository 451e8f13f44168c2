"""Diagrams of the model as SVG: boxes, arrows and words, in the colours that a reader's screen prefers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from dovetail.report.charts.palette import BLUE, GREEN, ORANGE, PALE, PURPLE, SKY, VERMILLION
from dovetail.report.charts.themes import FONT, INKS

WIDE = 880
ROW = 46


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rectangle with a line of words, and a second, smaller one."""

    x: float
    y: float
    w: float
    h: float
    text: str
    note: str = ""
    colour: str = ""


def _style() -> str:
    def rules(mode: str) -> str:
        inks = INKS[mode]
        return (
            f"text{{fill:{inks['ink']};font-family:{FONT};font-size:14px}}.dim{{fill:{inks['dim']};font-size:12px}}"
            f".box{{fill:{inks['paper']};stroke:{inks['dim']}}}.line{{stroke:{inks['dim']};fill:none}}"
            f".paper{{fill:{inks['paper']}}}.head{{fill:{inks['dim']}}}"
        )

    return f"<style>{rules('light')}@media (prefers-color-scheme:dark){{{rules('dark')}}}</style>"


def drawing(title: str, alt: str, high: float, parts: Iterator[str]) -> str:
    marker = (
        '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {high:g}" width="{WIDE}" height="{high:g}"'
        f' role="img" aria-label="{escape(f"{title}. {alt}")}">{_style()}<defs>{marker}</defs>'
        f'<rect class="paper" width="100%" height="100%"/>'
        f'<text x="12" y="24" style="font-size:16px;font-weight:650">{escape(title)}</text>{"".join(parts)}</svg>\n'
    )


def _box(box: Box) -> str:
    middle = box.y + box.h / 2 + (0 if box.note else 5)
    side = f'<rect x="{box.x:g}" y="{box.y:g}" width="6" height="{box.h:g}" fill="{box.colour}"/>' if box.colour else ""
    note = f'<text class="dim" x="{box.x + 14:g}" y="{middle + 16:g}">{escape(box.note)}</text>' if box.note else ""
    return (
        f'<rect class="box" x="{box.x:g}" y="{box.y:g}" width="{box.w:g}" height="{box.h:g}" rx="3"/>{side}'
        f'<text x="{box.x + 14:g}" y="{middle:g}">{escape(box.text)}</text>{note}'
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="line" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" marker-end="url(#a)"/>'


def _words(x: float, y: float, text: str) -> str:
    return f'<text class="dim" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def layers() -> str:
    """Packages in the order in which data flows through them."""
    rows = (
        ("facts", "workload, hardware", "what must be computed; what can compute it", SKY),
        ("decision", "parallel", "how the work is cut, which device gets which piece", GREEN),
        ("physics", "cost, comm", "one operator on one chip; bytes over a topology", ORANGE),
        ("time", "step, opsched", "sharded work and a plan become a step", VERMILLION),
        ("answer", "evaluate, accuracy", "(workload, cluster, plan) in, an outcome out", BLUE),
        ("choice", "search", "which plan, which chip, which of both", PURPLE),
        ("words", "report, files, api, cli, explorer", "text, JSON, charts, pages", PALE),
    )

    def parts() -> Iterator[str]:
        for i, (row, names, what, colour) in enumerate(rows):
            y = 44 + i * (ROW + 14)
            yield _words(12, y + 27, row)
            yield _box(Box(x=90, y=y, w=330, h=ROW, text=names, colour=colour))
            yield _words(440, y + 27, what)
            if i + 1 < len(rows):
                yield _arrow(255, y + ROW, 255, y + ROW + 13)

    return drawing("Data flows one way", "Packages from facts to words.", 50 + len(rows) * (ROW + 14), parts())


def step() -> str:
    """What a step is made of."""

    def parts() -> Iterator[str]:
        top = (("training graph", "forward, backward, update"), ("shards", "degrees divide extents"))
        for i, (text, note) in enumerate(top):
            yield _box(Box(x=20 + i * 220, y=46, w=190, h=54, text=text, note=note, colour=SKY))
        yield _arrow(210, 73, 239, 73)
        middle = (
            ("operators", "on one chip", BLUE),
            ("collectives", "on the network", VERMILLION),
            ("host", "launches", PALE),
        )
        for i, (text, note, colour) in enumerate(middle):
            yield _box(Box(x=480, y=46 + i * 66, w=180, h=54, text=text, note=note, colour=colour))
            yield _arrow(430, 73, 479, 73 + i * 66)
            yield _arrow(660, 73 + i * 66, 699, 139)
        yield _box(Box(x=700, y=112, w=160, h=54, text="one stage", note="power sets its clock", colour=GREEN))
        line = (("pipeline", "bubbles"), ("gradient sync", "once per step"), ("update", "the optimizer"))
        for i, (text, note) in enumerate(line):
            yield _box(Box(x=20 + i * 200, y=270, w=170, h=54, text=text, note=note, colour=ORANGE))
            yield _arrow(190 + i * 200, 297, 219 + i * 200, 297)
        yield '<path class="line" d="M780 166V250H105V268" marker-end="url(#a)"/>'
        yield _box(Box(x=620, y=270, w=240, h=54, text="step time, energy", note="and a 90 % interval", colour=PURPLE))

    return drawing("From a graph to a step", "Graph, shards, costs, stage, pipeline, step.", 344, parts())


def axes() -> str:
    """Where the axes of a plan lie on a network of two dimensions."""

    def parts() -> Iterator[str]:
        for stage in range(4):
            x = 20 + stage * 215
            yield f'<rect class="box" x="{x}" y="56" width="200" height="170" rx="4"/>'
            yield _words(x + 10, 76, f"stage {stage} (pp 4)")
            for copy in range(2):
                y = 86 + copy * 66
                yield _words(x + 10, y + 14, f"dp {copy}: tp 8, one NVLink node")
                for rank in range(8):
                    fill = SKY if copy == 0 else GREEN
                    yield f'<rect x="{x + 10 + rank * 23}" y="{y + 22}" width="18" height="28" fill="{fill}"/>'
            if stage < 3:
                yield _arrow(x + 200, 140, x + 214, 140)
        yield _words(
            20,
            252,
            "tp inside a node (NVLink), cp, dp and pp over nodes (InfiniBand): axis_order [tp, cp, dp, pp]",
        )

    return drawing("Axes of a plan on a network", "Four stages, two copies of eight devices each.", 268, parts())


def memory() -> str:
    """The four moments at which memory is counted."""
    moments = (
        ("backward begins", (3, 2, 2, 7)),
        ("last layer", (3, 3, 2, 6)),
        ("embedding", (3, 4, 2, 1)),
        ("update", (3, 4, 4, 0)),
    )
    kinds = (("weights", BLUE), ("gradients", VERMILLION), ("optimizer", ORANGE), ("activations", GREEN))

    def parts() -> Iterator[str]:
        for i, (name, heights) in enumerate(moments):
            y = 250.0
            for (_, colour), high in zip(kinds, heights, strict=True):
                y -= 13 * high
                yield f'<rect x="{60 + i * 150}" y="{y:g}" width="90" height="{13 * high}" fill="{colour}"/>'
            yield _words(60 + i * 150, 272, name)
        for i, (name, colour) in enumerate(kinds):
            yield f'<rect x="690" y="{80 + i * 26}" width="14" height="14" fill="{colour}"/>'
            yield _words(712, 92 + i * 26, name)
        yield _words(60, 296, "a sketch, not to scale: the peak is the fullest of the four")

    return drawing("Four moments of memory", "Stacks of weights, gradients, state and activations.", 310, parts())


def search() -> str:
    """How a search proves its answer."""

    def parts() -> Iterator[str]:
        boxes = (
            ("space", "every plan or system", SKY),
            ("bounds", "no answer can be below", ORANGE),
            ("best bound first", "evaluated exactly", BLUE),
            ("incumbent", "best so far", GREEN),
        )
        for i, (text, note, colour) in enumerate(boxes):
            yield _box(Box(x=20 + i * 215, y=50, w=190, h=54, text=text, note=note, colour=colour))
            if i < 3:
                yield _arrow(210 + i * 215, 77, 234 + i * 215, 77)
        yield '<path class="line" d="M760 104V150H330V106" marker-end="url(#a)"/>'
        yield _words(350, 142, "what is bounded above the incumbent is ruled out unseen")
        yield _box(
            Box(
                x=235,
                y=176,
                w=410,
                h=54,
                text="gap = 1 - bound / best",
                note="0 is a proof: nothing open is below",
                colour=PURPLE,
            )
        )

    return drawing("How a search proves its answer", "Space, bounds, evaluation, incumbent, gap.", 244, parts())


def questions() -> str:
    """Who asks what."""
    rows = (
        ("training engineer", "Which plan, and how fast?", "simulate, plan, launch", BLUE),
        ("accelerator architect", "Which chip within my budget?", "mine, codesign, pareto", ORANGE),
        ("systems researcher", "What does a network buy?", "network, trace, reproduce", GREEN),
    )

    def parts() -> Iterator[str]:
        for i, (who, what, by, colour) in enumerate(rows):
            x = 16 + i * 288
            yield _box(Box(x=x, y=46, w=272, h=60, text=what, note=who, colour=colour))
            yield _arrow(x + 136, 106, x + 136, 129)
            yield _box(Box(x=x, y=130, w=272, h=44, text=by, colour=colour))

    return drawing("Three questions", "Three readers, what they ask, and by which commands.", 190, parts())


DIAGRAMS = {
    "diagram-layers": layers,
    "diagram-step": step,
    "diagram-axes": axes,
    "diagram-memory": memory,
    "diagram-search": search,
    "diagram-questions": questions,
}
