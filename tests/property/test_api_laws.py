"""A call and a command are two ways to one answer: `record` is what `--json` prints, and `str` the text."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dovetail as dv
from dovetail.api.arguments import as_argument
from dovetail.cli.process import EXIT_BAD_INPUT, main

FEW_SYSTEMS = str(Path(__file__).parents[1] / "e2e" / "few-systems.yaml")
FEW = settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))


def printed(*words: str) -> tuple[int, str]:
    """The exit code of a command and what it prints, here and now."""
    written = io.BytesIO()
    screen = io.TextIOWrapper(written, encoding="utf-8")
    with redirect_stdout(screen):
        code = main(list(words))
    screen.flush()
    return code, written.getvalue().decode()


def options(said: dict[str, Any]) -> list[str]:
    """Arguments of a call as a command takes them."""
    return [word for name, value in said.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def check_same(command: list[str], answer: dv.Answer) -> None:
    code, told = printed(*command, "--json")
    assert json.loads(told) == answer.record
    assert code == (0 if answer.fits else 1)
    assert printed(*command)[1] == str(answer)


STEPS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["gpt2-345m", "bert-large", "resnet-50", "llama3-70b", "mixtral-8x7b"]),
        "cluster": st.sampled_from(["h100x8", "dgx-a100x16", "tpu-v4x8", "h200x8"]),
        "plan": st.sampled_from(["ddp", "zero3", "no-such-plan"]),
        "global_batch": st.sampled_from([16, 64]),
    },
    optional={"compute": st.sampled_from(["bf16", "fp32", "fp99"])},
)


@FEW
@given(STEPS)
def test_a_simulated_step_is_the_commands_or_is_refused_alike(said):
    try:
        answer = dv.simulate(**said)
    except dv.DovetailError as error:
        refusal = str(error)
    else:
        check_same(["simulate", *options(said)], answer)
        return
    code, told = printed("simulate", *options(said), "--json")
    assert code == EXIT_BAD_INPUT
    assert refusal == as_argument(json.loads(told)["error"])


@pytest.mark.parametrize(("objective", "forbid"), [("time", ()), ("tokens/J", ("zero",)), ("headroom", ("uneven",))])
def test_a_plan_is_the_commands(objective, forbid):
    said: dict[str, Any] = {
        "model": "bert-base",
        "cluster": "h100x4",
        "global_batch": 16,
        "objective": objective,
        "top": 3,
    }
    words = ["plan", *options(said), *(word for one in forbid for word in ("--forbid", one))]
    check_same(words, dv.plan(**said, forbid=forbid))


@FEW
@given(
    st.sampled_from(["all-reduce", "all-gather", "all-to-all"]),
    st.sampled_from(["1 MiB", "1MiB..4MiB"]),
    st.sampled_from(["ring:8@50GB/s,500ns", "switch:4@25GB/s,1us", "h100x16"]),
    st.integers(1, 4),
)
def test_a_collective_is_the_commands(collective, size, topology, chunks):
    said: dict[str, Any] = {"size": size, "topology": topology, "chunks": chunks}
    check_same(["network", collective, *options(said)], dv.network(collective, **said))


@FEW
@given(st.sampled_from(["h200", "a100", "tpu-v4"]), st.sampled_from(["bf16", "fp32"]), st.integers(1, 4096))
def test_an_operator_is_the_commands(chip, dtype, rows):
    said: dict[str, Any] = {"chip": chip, "dtype": dtype}
    command = ["op", "matmul", str(rows), "1024", "512", *options(said)]
    try:
        answer = dv.op("matmul", rows, 1024, 512, **said)
    except dv.DovetailError:
        assert printed(*command)[0] == EXIT_BAD_INPUT
    else:
        check_same(command, answer)


@pytest.mark.parametrize("name", ["models", "chips", "clusters", "plans"])
def test_a_catalogue_is_the_commands(name):
    found = getattr(dv, name)()
    assert json.loads(printed(name, "--json")[1]) == found.record
    assert printed(name)[1] == str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "answer"),
    [
        # a small space to an answer; the one that is searched where none is named, to a limit that nothing keeps
        (f"codesign {FEW_SYSTEMS}", lambda: dv.codesign(FEW_SYSTEMS)),
        ("codesign gpt2-345m --area 1mm2", lambda: dv.codesign("gpt2-345m", area="1 mm2")),
        (
            f"pareto {FEW_SYSTEMS} --axes throughput,area",
            lambda: dv.pareto(FEW_SYSTEMS, axes=["throughput", "area"]),
        ),
        ("pareto gpt2-345m --area 1mm2", lambda: dv.pareto("gpt2-345m", area="1 mm2")),
        (
            "mine resnet-18 --batch 4 --algorithm random --budget 20",
            lambda: dv.mine("resnet-18", batch=4, algorithm="random", budget=20),
        ),
        ("mine llama3-70b --batch 1", lambda: dv.mine("llama3-70b", batch=1)),
    ],
    ids=["codesign", "codesign-nothing", "pareto", "pareto-nothing", "mine", "mine-nothing"],
)
def test_a_search_is_the_commands(command, answer):
    found = answer()
    code, told = printed(*command.split(), "--json")
    assert json.loads(told) == found.record
    assert code == (0 if found.fits else 1)


def test_a_schedule_and_a_comparison_are_the_commands():
    check_same(["schedule", "bert-base", "--chip", "tpuv2"], dv.schedule("bert-base", chip="tpuv2"))
    check_same(["validate", "dies"], dv.validate("dies"))


def test_a_launch_is_the_commands():
    said: dict[str, Any] = {"model": "llama3-8b", "cluster": "h100x64", "plan": "zero3", "framework": "torchtitan"}
    answer = dv.launch(**said)
    assert json.loads(printed("launch", *options(said), "--json")[1]) == answer.record
    assert printed("launch", *options(said))[1] == str(answer)
