"""Steps of models that nothing was fitted on, profiled kernel by kernel on a GPU, beside what we say of each kernel.

`python -m benchmarks.profiled_models inputs > inputs.json` writes what each case of `data/chosen_cases.py` is called
with; `python benchmarks/profiled_models.py profile inputs.json DIR`, on a machine with a GPU, PyTorch, transformers and
torchvision alone, writes `chosen_kernels.json.gz`; without arguments the two are put beside each other.
"""

from __future__ import annotations

import gc
import gzip
import importlib
import json
import os
import runpy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np

HERE = Path(__file__).parent / "data"
CASES, TABLE = HERE / "chosen_cases.py", HERE / "chosen_kernels.json.gz"
LISTS = frozenset({"cat", "stack", "index", "index_put_", "_index_put_impl_"})  # operators that take lists of tensors
SAME = {"add_": "add"}  # autograd adds gradients in place where nothing else holds them
NUM_WARM, NUM_TIMED = 4, 8  # steps, as in data/hf_steps


def inputs_of_cases() -> dict[str, Any]:
    """Shape and dtype of every input of every case, by the name of its argument."""
    from dovetail.importers.torch_cases import built_case

    found = {}
    for case, key in cases():
        made = built_case(case)
        named = {**{f"#{place}": one for place, one in enumerate(made.args)}, **made.inputs}
        found[key] = {name: [list(one.shape), str(one.dtype).removeprefix("torch.")] for name, one in named.items()}
    return found


def cases() -> Iterator[tuple[Any, str]]:
    from dovetail.importers.torch_cases import case_of, configs_in

    configs = configs_in(CASES)
    for name, batch, seq, mode, is_recomputed, is_autocast in runpy.run_path(str(CASES))["CASES"]:
        case = case_of(
            name,
            configs,
            batch=batch,
            seq=seq,
            is_checkpointed=bool(is_recomputed),
            is_autocast=bool(is_autocast),
        )
        yield case, "|".join(str(one) for one in (name, batch, seq, mode, is_recomputed, is_autocast))


def profile(inputs: dict[str, Any], folder: str) -> None:
    """On a GPU: times, memory, and the kernels of one warm step of each case, with the operators above each."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True  # as the script of data/hf_steps
    found: dict[str, Any] = {}
    table = runpy.run_path(str(CASES))
    for row in table["CASES"]:
        name, _batch, _seq, _mode, is_recomputed, is_autocast = row
        key = "|".join(str(one) for one in row)
        gc.collect()
        torch.cuda.empty_cache()
        try:
            found[key] = _profiled(torch, table["CONFIGS"], name, inputs[key], bool(is_recomputed), bool(is_autocast))
        except Exception as error:  # one case costs no other
            print("failed", key, type(error).__name__, str(error)[:300], flush=True)
            continue
        print(key, f"{found[key]['step_ms']:.2f} ms", len(found[key]["kernels"]), "kernels", flush=True)
        with gzip.open(os.path.join(folder, TABLE.name), "wt", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "card": torch.cuda.get_device_name(), "steps": found}, file)


def _profiled(
    torch: Any, configs: Any, name: str, shapes: Any, is_recomputed: bool, is_autocast: bool
) -> dict[str, Any]:
    dtype = torch.float32 if is_autocast else torch.bfloat16
    model = _built(torch, configs, name, dtype)
    values = {}
    for argument, (shape, kind) in shapes.items():
        is_whole = kind.startswith("int")
        tensor = (
            torch.randint(2, 100, shape, device="cuda")
            if is_whole
            else torch.randn(shape, device="cuda", dtype=getattr(torch, kind))
        )
        values[argument] = tensor
    args = [
        one.to(memory_format=torch.channels_last) if name.startswith("tvl:") and one.dim() == 4 else one
        for argument, one in values.items()
        if argument.startswith("#")
    ]
    named = {argument: one for argument, one in values.items() if not argument.startswith("#")}
    if is_recomputed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    labels = torch.randint(0, 1000, (args[0].shape[0],), device="cuda") if args else None

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=is_autocast):
            made = model(*args, **named)
            loss = torch.nn.functional.cross_entropy(made, labels) if args else made.loss
        del made  # a step that kept its outputs would hold the logits through the backward pass
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(NUM_WARM):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times_ms = []
    for _ in range(NUM_TIMED):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times_ms.append(start.elapsed_time(end))
    times_ms.sort()
    memory = {"peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    for _ in range(NUM_WARM):  # the card is warm again
        step()
    torch.cuda.synchronize()  # or kernels of a step before would be taken for this one's
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        step()
        torch.cuda.synchronize()
    rows = []
    for event in sorted(profiler.events(), key=lambda one: one.time_range.start):
        if not event.kernels:
            continue
        above, parent = [[event.name, event.id, event.input_shapes]], event.cpu_parent
        while parent is not None:
            above.append([parent.name, parent.id, parent.input_shapes])
            parent = parent.cpu_parent
        rows.append([above, [[kernel.name[:80], kernel.duration] for kernel in event.kernels]])
    return {
        "step_ms": (times_ms[3] + times_ms[4]) / 2,
        "least_ms": times_ms[0],
        "num_parameters": sum(one.numel() for one in model.parameters()),
        "kernels": rows,
        **memory,
    }


def _built(torch: Any, configs: Any, name: str, dtype: Any) -> Any:
    layout, _, model_name = name.partition(":")
    if layout in ("tv", "tvl"):
        torchvision = importlib.import_module("torchvision")

        model = getattr(torchvision.models, model_name)(weights=None).to("cuda", dtype).train()
        return model.to(memory_format=torch.channels_last) if layout == "tvl" else model
    import transformers

    config = dict(configs[name])
    kind_of, kind = getattr(transformers, config.pop("architectures")[0]), config.pop("model_type")
    made = transformers.AutoConfig.for_model(kind, **config)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("cuda"):
            made._attn_implementation = "sdpa"
            try:
                model = kind_of(made)
            except ValueError:  # the class has no such attention
                made._attn_implementation = "eager"
                model = kind_of(made)
    finally:
        torch.set_default_dtype(before)
    model = model.to("cuda", dtype).train()
    model.config.use_cache = False
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One profiled step beside its prediction; kernels are those of operators that both have."""

    name: str
    measured_s: float
    predicted_s: float
    measured_bytes: float
    predicted_bytes: float
    kernels_s: float  # of the GPU, all kernels
    within_s: float  # in kernels, or operators where we count others, that are predicted within a quarter
    unmatched_s: float
    largest: tuple[tuple[float, float, str], ...]  # seconds off, measured, operator: those beyond a quarter

    @property
    def within_frac(self) -> float:
        return self.within_s / self.kernels_s


def compared() -> Iterator[Compared]:
    from benchmarks.eager_kernels import WITHIN_FRAC
    from dovetail.cost.eager.times import eager_times
    from dovetail.hardware.catalog import chips
    from dovetail.importers.torch_cases import recorded_case
    from dovetail.step.eager import eager_step
    from dovetail.units import MICRO, MILLI

    with gzip.open(TABLE, "rt", encoding="utf-8") as file:
        steps = json.load(file)["steps"]
    chip = chips["h200-sxm"]()
    for case, key in cases():
        if key not in steps:
            continue
        measured = steps[key]
        recorded = recorded_case(case)
        found = eager_step(recorded, chip)
        times = eager_times(recorded.ops, chip, has_tf32=recorded.has_tf32)
        slower = times.kernel_s + times.clocked_s * (1 / found.clock_frac - 1)
        ends = [0, *times.launches.cumsum().tolist()]
        total = within = matched = 0.0
        off: dict[str, list[float]] = {}
        total = sum(us for _, kernels in measured["kernels"] for _, us in kernels) * MICRO
        for place, kernels in aligned(recorded.ops, times.launches.tolist(), measured["kernels"]):
            parts = times.part_s[ends[place] : ends[place + 1]]
            each = (
                [float(one) for one in parts * slower[place] / times.kernel_s[place]]
                if times.kernel_s[place] > 0
                else [0.0] * len(parts)
            )
            us = [one for _, one in kernels]
            pairs = list(zip(us, each, strict=True)) if len(us) == len(each) else [(sum(us), float(sum(each)))]
            for one_us, ours_s in pairs:
                one_s = one_us * MICRO
                matched += one_s
                if abs(ours_s / one_s - 1) <= WITHIN_FRAC:
                    within += one_s
                else:
                    sums = off.setdefault(f"{recorded.ops[place].name} {recorded.ops[place].phase}", [0.0, 0.0])
                    sums[0] += ours_s - one_s
                    sums[1] += one_s
        worst = sorted(((gap, own, name) for name, (gap, own) in off.items()), key=lambda one: -one[1])
        yield Compared(
            name=key,
            measured_s=measured["step_ms"] * MILLI,
            predicted_s=found.step_s,
            measured_bytes=measured["peak_bytes"],
            predicted_bytes=found.peak_bytes,
            kernels_s=total,
            within_s=within,
            unmatched_s=total - matched,
            largest=tuple(worst[:6]),
        )


def aligned(ops: Any, launches: list[int], rows: list[Any]) -> Iterator[tuple[int, list[Any]]]:
    """Operators that launch kernels, each with those that the profiler saw below a call of the same name and shape.

    Calls are nested: autocast's cast and autograd's copy lie below the operator that they are for, and are operators of
    their own to the dispatcher; a copy that a CUDA operator makes itself is not. So a kernel may belong to any call
    above it, and of all ways to lay the two sequences beside each other that with the most calls in common is taken.
    """
    rows = _inner_first(rows)
    words = [op.name.split(".")[1] for op in ops]
    places = [place for place, count in enumerate(launches) if count]
    ours = []
    for place in places:
        shapes = (one.shape for one in ops[place].inputs if one is not None and one.shape)
        ours.append(_token(words[place], next(shapes, ())))
    numbers: dict[str, int] = {token: number for number, token in enumerate(dict.fromkeys(ours))}
    depth = max(len(above) for above, _ in rows)
    tokens = np.full((len(rows), depth), -1, dtype=np.int64)
    events = np.full((len(rows), depth), -1, dtype=np.int64)
    for row, (above, _) in enumerate(rows):
        for level, (name, event, shapes) in enumerate(above):
            first = next((tuple(shape) for shape in shapes if shape and isinstance(shape[0], int)), ())
            tokens[row, level] = numbers.get(_token(name.removeprefix("aten::"), first), -1)
            events[row, level] = event
    owner = _owners(np.array([numbers[token] for token in ours], dtype=np.int64), tokens, events)
    found: dict[int, list[Any]] = {}
    for row, own in enumerate(owner.tolist()):
        if own >= 0:
            found.setdefault(own, []).extend(rows[row][1])
    for own, kernels in found.items():
        yield places[own], kernels


def _inner_first(rows: list[Any]) -> list[Any]:
    """Calls are listed as they begin; what a call calls launches its kernels before the call's own."""
    found = list(rows)
    for start in range(len(found) - 1, -1, -1):
        own, end = found[start][0][0][1], start
        while end + 1 < len(found) and any(event == own for _, event, _ in found[end + 1][0][1:]):
            end += 1
        found.insert(end, found.pop(start))
    return found


@numba.njit(cache=True)
def _owners(ours: Any, tokens: Any, events: Any) -> Any:
    """The operator of each row, or -1: the alignment with the most operators, then the most rows."""
    num_rows, depth = tokens.shape
    num_ours = len(ours)
    best = np.zeros((num_rows + 1, num_ours + 1), dtype=np.int32)
    # best[i, j]: from row i and operator j on; stay[i, j]: the same where row i may go to operator j - 1 once more
    stay = np.zeros((num_rows + 1, num_ours + 1), dtype=np.int32)
    for i in range(num_rows - 1, -1, -1):
        for j in range(num_ours, -1, -1):
            score = max(best[i + 1, j], best[i, j + 1] if j < num_ours else 0)
            if j < num_ours:
                for level in range(depth):
                    if tokens[i, level] == ours[j]:
                        score = max(score, 1000 + stay[i + 1, j + 1])
                        break
            best[i, j] = score
            again = score
            if j > 0 and i > 0:
                for level in range(depth):
                    if tokens[i, level] == ours[j - 1]:
                        for other in range(depth):
                            if tokens[i - 1, other] == ours[j - 1] and events[i - 1, other] == events[i, level]:
                                again = max(again, 1 + stay[i + 1, j])
            stay[i, j] = again
    owner = np.full(num_rows, -1, dtype=np.int64)
    i = j = 0
    can_stay = False
    while i < num_rows:
        here = stay[i, j] if can_stay else best[i, j]
        if can_stay and here > best[i, j]:
            owner[i] = j - 1
            i += 1
            continue
        can_stay = False
        is_match = False
        if j < num_ours:
            for level in range(depth):
                if tokens[i, level] == ours[j] and here == 1000 + stay[i + 1, j + 1]:
                    is_match = True
        if is_match:
            owner[i] = j
            i += 1
            j += 1
            can_stay = True
        elif j < num_ours and here == best[i, j + 1]:
            j += 1
        else:
            i += 1
    return owner


def _token(word: str, shape: tuple[int, ...]) -> str:
    """What two calls must share; a profiler does not open lists of tensors."""
    word = SAME.get(word, word)
    return word if word in LISTS or word.startswith(("_foreach", "_fused")) else f"{word}{shape}"


def main() -> None:
    match sys.argv[1:]:
        case ["inputs"]:
            print(json.dumps(inputs_of_cases()))
        case ["profile", file, folder]:
            profile(json.loads(Path(file).read_text()), folder)
        case []:
            for one in compared():
                print(
                    f"{one.name:40s} {one.predicted_s * 1e3:8.2f} of {one.measured_s * 1e3:8.2f} ms "
                    f"({one.predicted_s / one.measured_s - 1:+.1%}), memory "
                    f"{one.predicted_bytes / one.measured_bytes - 1:+.1%}, within a quarter {one.within_frac:.1%}, "
                    f"unmatched {one.unmatched_s / one.kernels_s:.1%}"
                )
                for gap_s, own_s, name in one.largest:
                    print(f"    {own_s * 1e3:8.2f} ms {gap_s * 1e3:+8.2f}  {name}")
        case _:
            sys.exit("usage: profiled_models.py [inputs | profile INPUTS.json FOLDER]")


if __name__ == "__main__":
    main()
