"""What one decoder layer keeps between its passes, on an H200 and by us: `python -m benchmarks.layer_rows`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.measured import h200_table
from dovetail.accuracy.jobs import layer_graph, layer_plan
from dovetail.accuracy.sets.layers import layers_of
from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.sharding import shard
from dovetail.units import MEBI
from dovetail.workload.optimizer import Precision


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
    table = h200_table("layers")
    rows = zip(layers_of(table), table.words("model"), table.positive("activation_mib"), strict=True)
    for layer, model, activation in rows:
        [(_, block)] = shard(layer_graph(layer, Precision()), layer_plan(layer)).held(0)
        yield LayerRow(
            what=f"{model} tp{layer.tensor} mb{layer.batch} seq{layer.seq}",
            measured_bytes=float(activation) * MEBI,
            predicted_bytes=kept_bytes(block, "none"),
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
