"""ONNX models, as dovetail capture reads them."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add

CAPTURE = "capture m.onnx --no-cache --out out.json --json"


@add("onnx", "ONNX models of capture", needs=("onnx",))
def models(folder: Path) -> tuple[Seed, ...]:
    from tests.capture import onnx_files

    small = {"layers": 1, "width": 8, "heads": 2, "vocab": 11, "positions": 8}
    made = (
        (onnx_files.gpt(folder / "gpt.onnx", **small), f"{CAPTURE} --seq 8"),
        (onnx_files.convolutions(folder / "convolutions.onnx"), CAPTURE),
        (onnx_files.recurrent(folder / "recurrent.onnx", directions=2), f"{CAPTURE} --seq 6"),
        (onnx_files.transformer_block(folder / "block.onnx"), f"{CAPTURE} --seq 8 --batch 4"),
        (onnx_files.mlp(folder / "mlp.onnx"), CAPTURE),
    )
    return tuple(seed({"m.onnx": file.read_bytes()}, command) for file, command in made)
