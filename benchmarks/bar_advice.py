"""What advice on recorded steps says that a change would gain, beside what it gained: vocabulary, channels last.

The vocabulary is padded in heads by themselves, and in whole steps of three models.
"""

from __future__ import annotations

import csv
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bar import REPOSITORY, Bar, reference_data
from dovetail.accuracy.sets.eager_ops import alone_s, calls
from dovetail.errors import DovetailError
from dovetail.hardware.catalog import chips
from dovetail.step.eager_advice import advice_of, with_side
from dovetail.units import MICRO, MILLI
from dovetail.workload.dispatched import DispatchedStep

ISSUE = 24
CHIP = "h200-sxm"
MOST_FRAC = 1 / 3
OPERATORS = Path(__file__).parent.parent / "src" / "dovetail" / "accuracy" / "data" / "h200" / "eager_ops.csv"
STEPS = "hf_steps/hf_steps.csv"
PADDED_STEPS = REPOSITORY / "benchmarks" / "data" / "padded_vocabulary.csv"
UNEVEN, PADDED = 50_257, (50_304, 50_264)  # columns of GPT-2's head, and those that it was measured with beside them
NCHW, CHANNELS_LAST = "tv:", "tvl:"  # before the names of networks in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Seconds that one change gained, and was said to."""

    what: str
    measured_s: float
    predicted_s: float

    @property
    def off_frac(self) -> float:
        return self.predicted_s / self.measured_s - 1


def bars() -> Iterator[Bar]:
    yield _bar("padded vocabulary: seconds gained in a head", padded_gains(), "")
    if all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers")):
        yield _bar("padded vocabulary: seconds gained in a step", padded_step_gains(), "")
    else:
        note = "PyTorch or transformers are not there"
        yield Bar(
            name="padded vocabulary: seconds gained in a step",
            issue=ISSUE,
            bar="measured",
            measured="-",
            holds=None,
            note=note,
        )
    table = reference_data(STEPS)
    if table is None or any(importlib.util.find_spec(name) is None for name in ("torch", "torchvision")):
        note = "measured steps, PyTorch or torchvision are not there"
        yield Bar(
            name="channels last: seconds gained", issue=ISSUE, bar="measured", measured="-", holds=None, note=note
        )
        return
    yield _bar("channels last: seconds gained in a step", layout_gains(table), "")


def _bar(name: str, gains: list[Gain], note: str) -> Bar:
    worst = max(gains, key=lambda one: abs(one.off_frac))
    return Bar(
        name=name,
        issue=ISSUE,
        bar=f"each within {MOST_FRAC:.0%} of the measured",
        measured=f"{worst.off_frac:+.1%} at worst ({worst.what}), of {len(gains)}",
        holds=all(abs(one.off_frac) <= MOST_FRAC for one in gains),
        note=note,
    )


def padded_gains() -> list[Gain]:
    """Of every head that was measured uneven and padded."""
    with OPERATORS.open() as file:
        measured = {
            (row["kind"], row["what"], row["pass"]): float(row["time_us"]) * MICRO for row in csv.DictReader(file)
        }
    chip, found = chips[CHIP](), []
    for (kind, what, way), before_s in measured.items():
        if not kind.startswith("head") or not re.search(rf"x{UNEVEN}$", what):
            continue
        for padded in PADDED:
            after_s = measured.get((kind, what.replace(str(UNEVEN), str(padded)), way))
            if after_s is None:
                continue
            now = _step(calls(kind, what, way))
            then = with_side(now, UNEVEN, padded)
            assert then is not None
            [now_s, then_s] = alone_s([now.ops, then.ops], [False] * 2, [1] * 2, chip).tolist()
            found.append(Gain(what=f"{what} {way}", measured_s=before_s - after_s, predicted_s=now_s - then_s))
            break
    return found


def padded_step_gains() -> list[Gain]:
    """Of every model whose step was measured with its vocabulary as it is and padded; the advice has to say so."""
    from dovetail.importers.torch_cases import case_of, recorded_case

    chip, found = chips[CHIP](), []
    with PADDED_STEPS.open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = row["model"]
        case = case_of(
            name,
            {name: _config(row)},
            batch=int(row["batch"]),
            seq=int(row["seq"]),
            is_checkpointed=False,
            is_autocast=row["amp"] == "1",
        )
        step = recorded_case(case)
        words = f"pad the vocabulary from {int(row['vocab']):,} to {int(row['padded_vocab']):,}"
        said = [one.gain_s for one in advice_of(step, chip) if one.change == words]
        measured_s = (float(row["iter_ms"]) - float(row["padded_iter_ms"])) * MILLI
        found.append(Gain(what=name, measured_s=measured_s, predicted_s=sum(said)))
    return found


def _config(row: dict[str, str]) -> dict[str, object]:
    """As Hugging Face writes it."""
    layers, hidden, heads = (int(row[name]) for name in ("layers", "hidden", "heads"))
    shared = {"architectures": [row["architecture"]], "vocab_size": int(row["vocab"])}
    if row["architecture"] == "GPT2LMHeadModel":
        return shared | {"model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads}
    return shared | {
        "model_type": "roberta", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "intermediate_size": 4 * hidden, "max_position_embeddings": 514, "type_vocab_size": 1,
    }  # fmt: skip


def _step(ops: tuple[object, ...]) -> DispatchedStep:
    return DispatchedStep(
        ops=ops,  # type: ignore[arg-type]
        module_calls=(0,) * len(ops),
        live_bytes=(0,) * len(ops),
        state_bytes=0,
        num_parameters=1,
    )


def layout_gains(table: Path) -> list[Gain]:
    """Of every network that was measured eager in both layouts."""
    from dovetail.importers.torch_cases import case_of, recorded_case

    with table.open() as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "eager"]
    times_s = {(row["model"], row["batch"], row["seq"], row["amp"]): float(row["iter_ms"]) * MILLI for row in rows}
    chip, found = chips[CHIP](), []
    for (model, batch, seq, amp), before_s in times_s.items():
        after_s = times_s.get((model.replace(NCHW, CHANNELS_LAST, 1), batch, seq, amp))
        if not model.startswith(NCHW) or after_s is None:
            continue
        asked = {"batch": int(batch), "seq": int(seq), "is_checkpointed": False, "is_autocast": amp == "1"}
        try:
            step = recorded_case(case_of(model, {}, **asked))  # type: ignore[arg-type]
        except DovetailError:
            continue
        said = [one.gain_s for one in advice_of(step, chip) if "channels last" in one.change]
        what = f"{model}{' autocast' if amp == '1' else ''}"
        found.append(Gain(what=what, measured_s=before_s - after_s, predicted_s=sum(said)))
    return found
