from __future__ import annotations

from collections.abc import Callable

import pytest

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.hardware.catalog import chips
from dovetail.registry import Registry


def test_an_unknown_name_is_met_with_the_nearest_ones() -> None:
    with pytest.raises(InvalidInput, match=r"no chip is named 'h100-smx'; did you mean .*h100-sxm"):
        chips["h100-smx"]


def test_a_name_like_nothing_is_met_with_the_list() -> None:
    assert did_you_mean("zzz", ("a", "b")) == "; known: a, b"


def test_names_are_taken_once() -> None:
    registry: Registry[int] = Registry("number", "dovetail.comm.collectives")
    registry.register("one")(1)
    with pytest.raises(AssertionError, match="two numbers are named 'one'"):
        registry.register("one")(1)


def test_an_entry_that_cannot_be_made_is_named_with_what_it_lacks() -> None:
    registry: Registry[Callable[..., str]] = Registry("model")
    registry.register("whole")(lambda size="1": size)
    assert registry.each(lambda name, build: f"{name} {build()}") == ["whole 1"]
    registry.register("broken")(lambda *, is_exact: str(is_exact))
    with pytest.raises(InvalidInput, match=r"^the model 'broken' cannot be made: .*'is_exact'"):
        registry.each(lambda _, build: build())


def test_an_error_gathers_its_place_from_the_inside_out() -> None:
    error = NotModelled("no such thing", "kind").at("topology[0]").at("cluster")
    assert isinstance(error, NotModelled)
    assert str(error) == "no such thing (cluster.topology[0].kind)"
