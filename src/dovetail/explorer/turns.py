"""The sliders of the hardware page: figures of the hardware and the number of devices, each as times its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from typing import Any, Protocol

from nicegui import ui

from dovetail.errors import DovetailError, InvalidInput
from dovetail.explorer.answers import figures_of_job, job_of_state
from dovetail.explorer.elements import slider, words
from dovetail.explorer.figures import figure_label
from dovetail.explorer.state import DEVICES, State
from dovetail.files.job import OpenJob
from dovetail.hardware.altered import MOST_TIMES, Figure

STEP = 0.05  # of a slider, in doublings
DEVICE_TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)  # style: halves and doubles are what whole copies of a plan fill
FactorLabel = Callable[[float], str]


class Turner(Protocol):
    """Whose hardware is turned; `factor` raises where a slider stands at no number."""

    async def turn(self, key: str, factor: Callable[[], float]) -> None: ...


class Turns:
    """Sliders of one page; what stands beside each is told by `say`."""

    def __init__(self, turner: Turner) -> None:
        self._turner = turner
        self._box = ui.element("div").classes("sliders")
        self._outputs: dict[str, tuple[Any, FactorLabel]] = {}

    def show(self, state: State, job: OpenJob) -> None:
        """Those that the job's hardware has, as the state has turned them."""
        self._box.clear()
        self._outputs = {}
        with self._box:
            for figure in figures_of_job(job):
                self._figure(figure, state.factors.get(figure.key, 1.0))
            self._devices(state, job)
            if not self._outputs:
                words("A cluster of several pools is changed in its file.", "p", "note")

    def show_factor(self, key: str, factor: float) -> None:
        output, said = self._outputs[key]
        output.content = said(factor)

    def _figure(self, figure: Figure, factor: float) -> None:
        most = math.log2(MOST_TIMES)

        def said(factor: float) -> str:
            return _times(figure_label(figure.value * factor, figure.unit), factor)

        _, output = slider(
            f"turn-{figure.key}",
            figure.label,
            said(factor),
            lambda text: self._turner.turn(figure.key, lambda: 2 ** bounded(text, most)),
            figure.note,
            min=str(-most),
            max=str(most),
            step=str(STEP),
            value=f"{math.log2(factor):.4f}",
        )
        self._outputs[figure.key] = output, said

    def _devices(self, state: State, job: OpenJob) -> None:
        own, factor = job.cluster.num_devices, state.factors.get(DEVICES, 1.0)
        every = [times for times in DEVICE_TIMES if can_have(state, own * times)]
        if len(every) < 2 or factor not in every:
            return

        def said(factor: float) -> str:
            return _times(f"{own * factor:,.0f}", factor)

        _, output = slider(
            f"turn-{DEVICES}",
            "devices",
            said(factor),
            lambda text: self._turner.turn(DEVICES, lambda: _at(every, text)),
            "more or fewer copies of the same plan",
            min="0",
            max=str(len(every) - 1),
            step="1",
            value=str(every.index(factor)),
        )
        self._outputs[DEVICES] = output, said


def can_have(state: State, num_devices: float) -> bool:
    """Whether the state's cluster can be of so many devices."""
    if num_devices < 1 or num_devices != int(num_devices):
        return False
    try:
        return job_of_state(replace(state, devices=int(num_devices))).cluster.num_devices == num_devices
    except DovetailError:
        return False


def _times(value: str, factor: float) -> str:
    """A figure's value, and how many times its own it is."""
    return escape(value) if factor == 1 else f"{escape(value)} <b>×{factor:.2f}</b>"


def _at(every: Sequence[float], text: str) -> float:
    return every[max(0, min(len(every) - 1, int(bounded(text, len(every)))))]


def bounded(text: str, most: float) -> float:
    """Where a slider stands, from -`most` to `most`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= most:
        raise InvalidInput(f"a slider's value is a number; got {text[:40]!r}")
    return value
