"""Forward and backward passes of Hugging Face models in fp32 on the GPUs that rows name, as their code runs eagerly."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, StepCase, StepFigures, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.errors import DovetailError, InvalidInput
from dovetail.hardware.catalog import chip_of_device, chips
from dovetail.hardware.chip import Chip
from dovetail.units import MEGA, MILLI
from dovetail.workload.graph import FloatArray

NEEDED = ("device", "model", "batch", "seq", "fwd_bwd_ms")
PROMISE = "fp32 passes"
FP32_BYTES = 4.0
BUCKET_BYTES = 25 * MEGA  # of DistributedDataParallel's gradients (bucket_cap_mb of PyTorch)


def _gpt2(**sizes: int) -> dict[str, Any]:
    return {"model_type": "gpt2", "architectures": ("GPT2LMHeadModel",), "vocab_size": 50257, **sizes}


# Models by the names that sitar-lab/NeuSight has for them, as configurations of transformers.
MODELS: dict[str, dict[str, Any]] = {
    "gpt2_large": _gpt2(n_embd=1280, n_layer=36, n_head=20, n_positions=1024),
    "gpt3_xl": _gpt2(n_embd=3072, n_layer=24, n_head=24, n_positions=2048),
    "gpt3_27": _gpt2(n_embd=2560, n_layer=32, n_head=32, n_positions=2048),
    "opt_13": {
        "model_type": "opt", "architectures": ("OPTForCausalLM",), "hidden_size": 2048, "ffn_dim": 8192,
        "num_hidden_layers": 24, "num_attention_heads": 32, "word_embed_proj_dim": 2048, "vocab_size": 50272,
        "max_position_embeddings": 2048, "activation_function": "relu",
    },
    "bert_large": {
        "model_type": "bert", "architectures": ("BertForMaskedLM",), "hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 30522, "max_position_embeddings": 512,
    },
}  # fmt: skip
_PARALLEL = re.compile(r"(?P<how>dp|pp)(?P<devices>[1-9][0-9]{0,2})(_(?P<micro>[1-9][0-9]{0,2}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One row: what is recorded, and over how many devices and microbatches it runs."""

    case: StepCase
    num_replicas: int = 1
    num_stages: int = 1
    num_microbatches: int = 1

    def whole_s(self, one_s: float, chip: Chip) -> float:
        """Seconds of the row where the recorded passes, of one microbatch on one device, take `one_s`.

        Stages follow each other; what a stage sends, and the last gradients that replicas reduce, nothing hides.
        """
        config = dict(self.case.config)
        hidden = float(config.get("n_embd") or config["hidden_size"])
        link_bytes_per_s = chip.interconnect_bytes_per_s * chip.calibration.link_frac
        last_bytes = max(
            BUCKET_BYTES, FP32_BYTES * float(config["vocab_size"]) * hidden
        )  # the table of tokens comes last
        reduced_bytes = 2 * (self.num_replicas - 1) / self.num_replicas * last_bytes
        sent_bytes = 2 * (self.num_stages - 1) * FP32_BYTES * self.case.batch * self.case.seq * hidden
        turns = (self.num_microbatches + self.num_stages - 1) / self.num_stages
        return turns * one_s + (reduced_bytes + sent_bytes) / link_bytes_per_s


def passes_of(model: str, batch: int, seq: int, parallel: str) -> Pass | None:
    """The row of these words; nothing where its model or parallelism is not known, or does not divide the batch."""
    found = _PARALLEL.fullmatch(parallel.strip().lower())
    if model not in MODELS or (parallel.strip() and found is None):
        return None
    num_devices = int(found["devices"]) if found else 1
    is_data_parallel = found is not None and found["how"] == "dp"
    num_microbatches = int(found["micro"] or 1) if found and not is_data_parallel else 1
    parts = num_devices if is_data_parallel else num_microbatches
    if batch % parts:
        return None
    case = StepCase(
        model=model,
        batch=batch // parts,
        seq=seq,
        mode="eager",
        is_fp32=True,
        has_update=False,
        config=tuple(MODELS[model].items()),
    )
    if is_data_parallel:
        return Pass(case=case, num_replicas=num_devices)
    return Pass(case=case, num_stages=num_devices, num_microbatches=num_microbatches)


def prepare(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    record_steps = given.record_steps
    if record_steps is None:
        raise InvalidInput("passes of models that a table names are recorded by dovetail validate FILE.csv")
    parallel = measurements.words("parallel") if measurements.has("parallel") else [""] * len(measurements)
    batches, seqs = (measurements.counts(name).tolist() for name in ("batch", "seq"))
    rows = [passes_of(*row) for row in zip(measurements.words("model"), batches, seqs, parallel, strict=True)]
    names = [_chip_name(device, given) for device in measurements.words("device")]
    measured = measurements.positive("fwd_bwd_ms") * MILLI
    left_out: Counter[str] = Counter()
    for row, name, device, model in zip(
        rows, names, measurements.words("device"), measurements.words("model"), strict=True
    ):
        if row is None:
            left_out[f"rows of {model[:40]}, which is not modelled"] += 1
        elif not name:
            left_out[f"rows of {device[:40]}, which no catalogue has; pass --chip"] += 1
    places: dict[str, list[int]] = defaultdict(list)
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        if row is not None and name:
            places[name].append(place)
    found: dict[int, float] = {}
    for name, own in places.items():
        chip = chip_for(given, name)
        known = [row for place in own if (row := rows[place]) is not None]
        figures = record_steps([row.case for row in known], chip)
        for place, row, figure in zip(own, known, figures, strict=True):
            if isinstance(figure, StepFigures):
                found[place] = row.whole_s(figure.step_s, chip)
            elif isinstance(figure, DovetailError):
                left_out[f"{row.case.words}: {figure}"] += 1
    kept = sorted(found)
    seconds: FloatArray = np.array([found[place] for place in kept])

    def predicted(_chip: Chip) -> FloatArray:
        return seconds

    words = [row.case.words if row is not None else "" for row in rows]
    return (
        Prepared(
            name=measurements.name,
            chip=chip_for(given),
            unit="s",
            kinds=tuple(names[place] for place in kept),
            whats=tuple(f"{words[place]} {parallel[place]}".strip() for place in kept),
            measured=measured[kept],
            predicted=predicted,
            promise="" if given.chip is not None else PROMISE,
            is_of_chip=given.chip is not None,
            skipped=tuple(sorted(left_out.items())),
        ),
    )


def _chip_name(device: str, given: TableContext) -> str:
    """The catalogue's name of a device as drivers call it, blanks or underscores between its words."""
    if given.chip is not None:
        return given.chip.name
    plain = device.strip()
    for name in (plain, plain.replace("_", " "), plain.lower()):
        if known := chip_of_device(name) or (name if name in chips else ""):
            return known
    return ""


sets.register("forward-backward")(
    Format(
        needed=NEEDED,
        summary=f"fp32 passes of models as their code runs: {', '.join(NEEDED)}; parallel",
        prepare=prepare,
    )
)
