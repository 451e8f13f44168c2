"""Plugins as tests write them: text in, a plugin that runs until the test ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent
from typing import Any

from dovetail.plugins import Loaded, Plugin, forget, load, loaded_plugins

CHIP = """
    from dataclasses import replace
    from dovetail.hardware.catalog import chips

    @chips.register("{name}")
    def build():
        return replace(chips["h100-sxm"](), name="{name}")
"""
COST = """
    from dovetail.cost.own_costs import operator_costs

    @operator_costs.register("{name}")
    def cost_s(rows, chips):
        return {seconds}
"""
MODEL = """
    from dovetail.workload.model import Model
    from dovetail.workload.models import models
    from dovetail.workload.transformer import Transformer

    @models.register("tiny")
    def tiny():
        shape = Transformer(
            name="tiny", num_layers=4, hidden=512, num_heads=8, num_kv_heads=8, head_width=64, ffn_width=2048,
            vocab=8192, activation="gelu",
        )
        return Model(
            architecture=shape, family="tests", seq=512, sample="tokens", published_parameters=0.0, is_exact=False,
            source="a test", batch=32,
        )
"""
OPERATOR = """
    from dovetail.workload.operators import Operator, Pass, Unit, operators

    operators.register("{name}")(Operator(name="{name}", unit=Unit.VECTOR, forward=Pass(num_reads={reads})))
"""


def plugin(source: str, path: str = "mine.py", **words: Any) -> Plugin:
    return Plugin(path=path, source=dedent(source).lstrip().format(**words) if words else dedent(source).lstrip())


@contextmanager
def running(*plugins: Plugin) -> Iterator[tuple[Loaded, ...]]:
    """Plugins that are loaded within, and forgotten after."""
    num_before = len(loaded_plugins())
    try:
        yield tuple(load(one) for one in plugins)
    finally:
        forget(num_before)
