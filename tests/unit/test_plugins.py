"""Plugins: what they register is found, what is wrong with them is one line with its place, nothing of them stays."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

import numpy as np
import pytest

from dovetail.comm.collectives import collectives
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.catalog import chips
from dovetail.hardware.clusters import clusters
from dovetail.plugins import blamed, load, loaded_plugins, plugins_digest
from dovetail.store.version import model_version
from dovetail.workload.models import models
from dovetail.workload.operators import NUM_READS, OPERATORS, code_of, operators
from tests.plugin_sources import CHIP, COST, MODEL, OPERATOR, plugin, running


def refusal(source: str, **words: Any) -> str:
    with pytest.raises((InvalidInput, NotModelled)) as raised:
        load(plugin(source, **words))
    assert loaded_plugins() == ()
    return str(raised.value)


def test_what_a_plugin_registers_is_there_until_it_is_forgotten():
    before = chips.names()
    with running(plugin(CHIP, name="my-chip")) as [found]:
        assert found.registered == ("chip my-chip",)
        assert chips["my-chip"]().name == "my-chip"
        assert chips.owner("my-chip") == "mine.py"
        assert chips.owner("h100-sxm") == ""
    assert chips.names() == before
    assert loaded_plugins() == ()


def test_a_plugin_loaded_twice_runs_once():
    with running(plugin(CHIP, name="my-chip")) as [first]:
        assert load(plugin(CHIP, name="my-chip")) is first
        assert len(loaded_plugins()) == 1


def test_a_file_that_changed_while_it_is_loaded_is_refused():
    with running(plugin(CHIP, name="my-chip")), pytest.raises(InvalidInput, match=r"has changed since.*\(mine\.py\)"):
        load(plugin(CHIP, name="other-chip"))


def test_two_plugins_cannot_take_one_name():
    message = r"'my-chip' is there already, from the plugin mine\.py; choose another name \(theirs\.py:4\)"
    with running(plugin(CHIP, name="my-chip")), pytest.raises(InvalidInput, match=message):
        load(plugin(CHIP, "theirs.py", name="my-chip"))


def test_a_built_in_keeps_its_name():
    message = "the chip 'h100-sxm' is there already, from a built-in; choose another name (mine.py:4)"
    assert refusal(CHIP, name="h100-sxm") == message


def test_modules_of_ours_that_a_plugin_imports_stay_ours(monkeypatch):
    name = "dovetail.hardware.clusters.trn1"
    monkeypatch.setattr(clusters, "_entries", {key: value for key, value in clusters.items() if key != "trn1"})
    monkeypatch.delitem(sys.modules, name)
    with running(plugin(f"    import {name}{CHIP}".replace("{name}", "my-chip"))):
        assert "trn1" in clusters
        assert clusters.owner("trn1") == ""


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1", "this plugin registers nothing; see docs/howto/plugins.md for what it may register (mine.py)"),
        ("x = 1\nx = = 2", "the plugin is no Python: invalid syntax (mine.py:2)"),
        ("import math\n\nmath.sqrt(-1)", "(mine.py:3)"),
        (
            "import no_such_module",
            "raises ModuleNotFoundError: No module named 'no_such_module' (mine.py:1)",
        ),
        ("def f():\n    raise KeyError('a\\nb')\nf()", "the plugin raises KeyError: 'a\\nb' (mine.py:2)"),
        ("import sys\nsys.exit(3)", "the plugin raises SystemExit: 3 (mine.py:2)"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_told_in_one_line(source, told):
    assert told in refusal(source)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("chips.register('a')(3)", "a chip is registered as a function that gives it; 'a' is int (mine.py:6)"),
        ("chips.register('a')(lambda: 3)", "the function of the chip 'a' must give a Chip; it gives int (mine.py:6)"),
        ("chips.register('a')(chips['h100-sxm'])", "registered as 'a' is called 'h100-sxm'; one name for both"),
        ("chips.register(7)(chips['h100-sxm'])", "needs a name of letters, digits and hyphens; got 7 (mine.py:6)"),
        ("models.register('a')(lambda: 3)", "the function of the model 'a' must give a Model; it gives int"),
        ("clusters.register('a')(3)", "a cluster is registered as a ClusterEntry; 'a' is int (mine.py:6)"),
        ("pipelines.register('a')(3)", "a pipeline schedule is registered as a Pipeline; 'a' is int (mine.py:6)"),
        ("operators.register('a')(3)", "an operator is registered as an Operator; 'a' is int (mine.py:6)"),
    ],
)
def test_an_entry_of_another_kind_is_told_with_its_line(entry, told):
    imports = """
        from dovetail.hardware.catalog import chips
        from dovetail.hardware.clusters import clusters
        from dovetail.step.pipelines import pipelines
        from dovetail.workload.models import models
        from dovetail.workload.operators import operators
    """
    assert told in refusal(f"{imports}    {entry}\n")


def test_what_fails_half_way_leaves_nothing():
    refused = refusal(f"{CHIP}    {OPERATOR.strip()}\n    1 / 0\n", name="half", reads=1)
    assert "ZeroDivisionError" in refused
    assert "half" not in chips
    assert "half" not in operators
    with running(plugin(CHIP, name="half")):
        assert "half" in chips


def test_an_operator_gets_the_next_code_and_gives_it_back():
    num_before = len(OPERATORS)
    with running(plugin(OPERATOR, name="swish", reads=3)):
        assert code_of("swish") == num_before
        assert NUM_READS[0, code_of("swish")] == 3.0
    assert len(OPERATORS) == num_before
    with pytest.raises(NotModelled, match="operator 'swish' is not modelled"):
        code_of("swish")


def test_only_vector_operators_can_be_added():
    tensor = OPERATOR.replace("VECTOR", "TENSOR")
    assert "an operator of a plugin runs on the vector units; 'swish' is for tensor" in refusal(
        tensor, name="swish", reads=1
    )
    assert "num_reads of 'swish' must be 0 or more; got -1" in refusal(OPERATOR, name="swish", reads=-1)


def test_a_collective_gives_as_many_times_as_it_is_given_payloads():
    source = """
        from dovetail.comm.collectives import collectives

        collectives.register("gossip")(lambda payload_bytes, group, link_frac: {time_s})
    """
    with running(plugin(source, time_s="payload_bytes / link_frac")):
        assert np.array_equal(collectives["gossip"](np.array([1.0, 2.0]), (), 1.0), [1.0, 2.0])
    assert "must give seconds of 0 or more; got -1 s (mine.py:3)" in refusal(source, time_s=-1.0)
    assert "must give seconds for (2,); got [1, 2, 3]" in refusal(source, time_s="[1, 2, 3]")


def test_what_a_plugin_raises_in_use_names_it_its_function_and_the_line():
    source = """
        from dovetail.comm.collectives import collectives

        @collectives.register("gossip")
        def gossip_s(payload_bytes, group, link_frac):
            return 1.0 if group else group["none"]
    """
    message = r"^gossip_s of the plugin raises TypeError: tuple indices .* \(mine\.py:5\)$"
    with running(plugin(source)), pytest.raises(InvalidInput, match=message), blamed():
        collectives["gossip"](1.0, (), 1.0)


def test_what_nobody_s_plugin_raised_is_left_as_it_is():
    with running(plugin(CHIP, name="my-chip")), pytest.raises(KeyError), blamed():
        os.environ["NONE OF THAT NAME"]
    with running(plugin(CHIP, name="my-chip")), pytest.raises(InvalidInput) as raised, blamed():
        chips["none"]
    assert raised.value.where == ""


def test_the_version_of_the_model_has_what_stands_in_plugins_in_it_whatever_their_order():
    first, second = plugin(CHIP, name="a-chip"), plugin(MODEL, "model.py")
    plain = model_version()
    with running(first):
        alone = model_version()
    with running(first, second):
        both = plugins_digest()
    with running(second, first):
        assert plugins_digest() == both
    with running(plugin(CHIP + "    # another word\n", name="a-chip")):
        changed = model_version()
    assert plain == model_version()
    assert len({plain, alone, changed}) == 3
    assert alone.startswith(f"{plain}.plugins-")


def test_the_path_of_a_plugin_is_no_part_of_the_version():
    with running(plugin(CHIP, "here.py", name="a-chip")):
        here = model_version()
    with running(plugin(CHIP, "there.py", name="a-chip")):
        assert model_version() == here


def test_a_function_of_a_plugin_can_be_sent_to_whoever_has_loaded_it():
    with running(plugin(MODEL)):
        sent = pickle.dumps(models["tiny"])
        assert pickle.loads(sent)().name == "tiny"
    with pytest.raises(ModuleNotFoundError):
        pickle.loads(sent)


def test_the_same_work_costs_what_the_operator_now_says_after_another_was_forgotten():
    from dovetail.accuracy.columns import bare_ops
    from dovetail.cost.costs import op_costs
    from dovetail.workload.graph import Phase

    def time_s(reads: int) -> float:
        with running(plugin(OPERATOR, name="swish", reads=reads)):
            ops = bare_ops(kind=code_of("swish"), phase=Phase.FORWARD, dtypes=["bf16"], extents=(1, 4096, 4096, 1, 1))
            return float(op_costs(ops, chips["h200-sxm"]()).compute_s[0])

    assert time_s(8) > 3 * time_s(1)


def test_costs_are_of_operators_and_chips_that_are_there():
    assert "operator 'layernom' is not modelled; did you mean layernorm?" in refusal(COST, name="layernom", seconds=1)
    assert "no chip is named 'h100-smx'; did you mean h100-sxm" in refusal(COST, name="gelu@h100-smx", seconds=1)
    assert "'gather' is not computed by a chip" in refusal(COST, name="gather", seconds=1)
