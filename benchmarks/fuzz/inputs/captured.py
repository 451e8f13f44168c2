"""Model files, as dovetail capture writes them and every other command reads them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bar import REPOSITORY
from benchmarks.fuzz.case import Case, Seed, seed
from benchmarks.fuzz.child import warm_up
from benchmarks.fuzz.inputs import add, inputs

COMMANDS = (
    "simulate --model m.json --cluster dgx-h100x8 --plan zero3 --global-batch 8 --json",
    "show m.json --json",
    "schedule m.json --chip tpuv4-like --json",
)


@add("captured", "model files that capture wrote", needs=("onnx",))
def models(folder: Path) -> tuple[Seed, ...]:
    """The example, and what is captured of the ONNX models that are seeds themselves."""
    texts = [(REPOSITORY / "examples" / "capture" / "decoder.json").read_bytes()]
    for number, one in enumerate(inputs["onnx"].seeds(folder)[:3]):
        file = folder / f"m{number}.json"
        arguments = tuple(str(file) if word == "out.json" else word for word in one.commands[0])
        warm_up(Case(files=one.files, arguments=arguments))
        texts.append(file.read_bytes())
    return tuple(seed({"m.json": text}, *COMMANDS) for text in texts)
