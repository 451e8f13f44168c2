"""What one decoder layer keeps between its passes, on an H200 and by us: `python -m benchmarks.layer_rows`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from benchmarks.memory_rows import read_rows
from dovetail.plan.memory import kept_bytes
from dovetail.plan.plan import Plan
from dovetail.plan.shard import shard
from dovetail.units import MEBI
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One measured layer and ours."""

    what: str
    measured_bytes: float
    predicted_bytes: float

    @property
    def error_frac(self) -> float:
        return self.predicted_bytes / self.measured_bytes - 1.0


def layer_rows() -> Iterator[LayerRow]:
    for row in read_rows("h200_layers.csv"):
        tensor, batch = int(row["tp"]), int(row["micro_batch"])
        sample = Sample(batch=batch, seq=int(row["seq"]), dtype="bf16", kernels="eager")
        graph = training_graph(_layer(row).forward(sample), Precision())
        cut = shard(graph, Plan(tensor_parallel=tensor, microbatch=batch))
        block = next(piece.block for piece in cut.stages[0].pieces if piece.block.is_layer)
        yield LayerRow(
            what=f"{row['model']} tp{tensor} mb{batch} seq{row['seq']}",
            measured_bytes=float(row["activation_mib"]) * MEBI,
            predicted_bytes=kept_bytes(block, "none"),
        )


def _layer(row: Mapping[str, str]) -> Transformer:
    """A model of one such layer: Llama's kind where the feed-forward is gated, GPT's otherwise, without dropout."""
    shape = models["llama3-8b" if row["gated"] == "1" else "megatron-22b"]().architecture
    assert isinstance(shape, Transformer)
    return replace(
        shape,
        num_layers=1,
        hidden=int(row["hidden"]),
        num_heads=int(row["heads"]),
        num_kv_heads=int(row["kv_heads"]),
        head_width=int(row["head_dim"]),
        ffn_width=int(row["ffn"]),
        num_positions=0,
        has_dropout=False,
        has_attention_dropout=False,
    )


def main() -> None:
    rows = tuple(layer_rows())
    for row in rows:
        measured, predicted = row.measured_bytes / MEBI, row.predicted_bytes / MEBI
        print(f"{row.what:34} {measured:8.1f} MiB  ours {predicted:8.1f} MiB  {row.error_frac:+6.1%}")
    errors = [abs(row.error_frac) for row in rows]
    print(f"mean error {statistics.fmean(errors):.1%}, worst {max(errors):.1%}, over {len(errors)} layers")


if __name__ == "__main__":
    main()
