"""Steps that exporters write and models do not have: a bias after its product, scores scaled twice, no NaN."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from dovetail.workload.recorded.record import Recording, Source, Step

_TAKE_A_BIAS = ("linear", "convolution")


def with_biases(recording: Recording) -> Recording:
    """The same recording, with a vector that is added to a product, and to nothing else, as the product's bias."""
    num_readers = Counter(number for step in recording.steps for number in step.inputs)
    made_at = {
        step.outputs[0]: place
        for place, step in enumerate(recording.steps)
        if step.word in _TAKE_A_BIAS and len(step.inputs) == 2 and num_readers[step.outputs[0]] == 1
    }
    steps: list[Step | None] = list(recording.steps)
    for place, step in enumerate(recording.steps):
        for product, bias in _biased(recording, step, made_at)[:1]:
            maker = steps[made_at[product]]
            assert maker is not None, recording.name
            steps[place] = replace(maker, inputs=(*maker.inputs, bias), outputs=step.outputs)
            steps[made_at[product]] = None
    return replace(recording, steps=tuple(step for step in steps if step is not None))


def _biased(recording: Recording, step: Step, made_at: dict[int, int]) -> list[tuple[int, int]]:
    """(product, bias) where `step` adds one to the other."""
    found: list[tuple[int, int]] = []
    if step.word != "add" or len(step.inputs) != 2:
        return found
    for bias, product in (step.inputs, step.inputs[::-1]):
        tensor = recording.tensors[bias]
        if tensor.source is Source.PARAMETER and product in made_at and bias != product:
            made = recording.steps[made_at[product]]
            channels = recording.tensors[product].shape
            is_row = tensor.shape == channels[-1:]
            is_column = tensor.num_elements == channels[1] == max(tensor.shape) if len(channels) > 1 else False
            if is_row if made.word == "linear" else is_column:
                found.append((product, bias))
    return found


def with_one_scale(recording: Recording) -> Recording:
    """The same recording with scores scaled once.

    Exporters write attention's scale as its root on queries and its root on keys; models, and kernels, scale once. So
    a number that multiplies the second operand of a product stands for nothing where one multiplies the first, nor does
    the first of two numbers that multiply it.
    """
    makers = {number: place for place, step in enumerate(recording.steps) for number in step.outputs}
    num_readers = Counter(number for step in recording.steps for number in step.inputs)
    steps = list(recording.steps)
    for step in recording.steps:
        if step.word == "matmul":
            first, second = (_scale(recording, number, makers, num_readers) for number in step.inputs)
            before = [_scale(recording, recording.steps[place].inputs[0], makers, num_readers) for place in first]
            for place in (*(second if first != second else ()), *before[0]) if first else ():
                steps[place] = replace(steps[place], word="view")
    return replace(recording, steps=tuple(steps))


def _scale(recording: Recording, number: int, makers: dict[int, int], num_readers: Counter[int]) -> tuple[int, ...]:
    """The place of the step that multiplies `number` by a plain number for one reader alone; empty if none does."""
    while number in makers and num_readers[number] == 1:
        step = recording.steps[makers[number]]
        if step.word in ("mul", "div") and len(step.inputs) == 1:
            return (makers[number],)
        if step.word != "view" or len(step.outputs) > 1:
            break
        number = step.inputs[0]
    return ()


def without_nan(recording: Recording) -> Recording:
    """The same recording without choices between a value that is no number and something else.

    Exporters put one behind the softmax of every attention with a mask, for rows that are masked whole; kernels do not.
    """
    makers = {step.outputs[0]: step for step in recording.steps if step.op == "IsNaN"}
    steps = list(recording.steps)
    for place, step in enumerate(recording.steps):
        chooser = makers.get(step.inputs[0]) if step.word == "where" and len(step.inputs) == 2 else None
        if chooser is not None and chooser.inputs == step.inputs[1:]:
            steps[place] = replace(step, word="view", inputs=step.inputs[1:])
    read = {number for step in steps for number in step.inputs}
    return replace(recording, steps=tuple(step for step in steps if step.op != "IsNaN" or step.outputs[0] in read))
