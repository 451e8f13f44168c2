"""What a module takes apart sample by sample and puts together again: one tensor, however many samples there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dovetail.workload.recorded.record import Recording, Source, Step

SPLITS = ("aten::unbind", "aten::split", "aten::split_with_sizes", "aten::chunk", "aten::unsafe_split")


def rejoined(recording: Recording, results: tuple[int, ...]) -> tuple[Recording, tuple[int, ...]]:
    """The recording without splits all of whose parts, in order, one concatenation alone reads; it is a view then.

    Iterating over a tensor, and `torch.cat` of one, make as many parts as there are samples.
    """
    readers = Counter(number for step in recording.steps for number in set(step.inputs))
    splits = {step.outputs: step for step in recording.steps if step.op in SPLITS and step.word == "view"}
    joins: dict[int, Step] = {}
    gone: set[int] = set()
    kept: list[Step] = []
    for step in recording.steps:
        split = splits.get(step.inputs) if step.word == "concat" else None
        if split is None or any(readers[part] > 1 or part in results for part in split.outputs):
            kept.append(step)
            continue
        joins[id(split)] = step
        gone.update(split.outputs)
        kept.append(Step(word="view", inputs=split.inputs, outputs=step.outputs, op="aten::view", where=step.where))
    if not joins:
        return recording, results
    kept = [step for step in kept if id(step) not in joins]
    places = [number for number in range(len(recording.tensors)) if number not in gone]
    new = {number: place for place, number in enumerate(places)}
    steps = tuple(
        replace(step, inputs=tuple(new[i] for i in step.inputs), outputs=tuple(new[i] for i in step.outputs))
        for step in kept
    )
    assert all(recording.tensors[number].source is Source.STEP for number in gone)
    tensors = tuple(recording.tensors[number] for number in places)
    return replace(recording, tensors=tensors, steps=steps), tuple(new[number] for number in results)
