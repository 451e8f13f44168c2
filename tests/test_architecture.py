"""The architecture rules hold for the code, and each rule is shown to fail on a tiny tree that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.architecture_rules import (
    EDGES,
    RANK_OF,
    computing_violations,
    edge_library_violations,
    extra_violations,
    import_violations,
    purity_violations,
    second_hand_violations,
    unknown_layer_violations,
)
from tests.source_tree import SOURCE_DIR, Module, source_modules
from tests.unit_rules import hides_a_prefix, prefix_literal_violations, says_its_unit, unit_name_violations

RULES: tuple[Callable[[Iterable[Module]], list[str]], ...] = (
    import_violations,
    computing_violations,
    second_hand_violations,
    unknown_layer_violations,
    edge_library_violations,
    extra_violations,
    purity_violations,
    unit_name_violations,
    prefix_literal_violations,
)

Tree = Callable[[dict[str, str]], tuple[Module, ...]]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes a source tree and gives back its modules: tree({"cost/roofline.py": "import time"})."""

    def write(files: dict[str, str]) -> tuple[Module, ...]:
        for name, text in {"__init__.py": "", **files}.items():
            file = tmp_path / "dovetail" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return source_modules(tmp_path)

    return write


# --- the code keeps the rules -------------------------------------------------------------------------------------


def test_the_rules_look_at_the_whole_package():
    modules = source_modules()
    assert len(modules) == len(list((SOURCE_DIR / "dovetail").rglob("*.py")))
    assert "dovetail" in {module.name for module in modules}
    assert {module.layer for module in modules} & RANK_OF.keys(), "no layer was found, so no rule was tried"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule):
    broken = rule(source_modules())
    assert not broken, "\n" + "\n".join(broken)


# --- each rule can fail -------------------------------------------------------------------------------------------


def test_an_almost_empty_tree_breaks_no_rule(tree):
    modules = tree({"errors.py": '"""Errors."""\n', "evaluate.py": "from dovetail.errors import X\n"})
    assert [rule(modules) for rule in RULES] == [[]] * len(RULES)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("workload/graph.py", "from dovetail.parallel import Plan", "workload (facts) imports parallel (decision)"),
        ("workload/graph.py", "import dovetail.hardware.chip", "both are facts and strangers"),
        ("hardware/chip.py", "from ..workload import graph", "both are facts and strangers"),
        ("cost/roofline.py", "from dovetail import comm", "both are physics and strangers"),
        (
            "comm/flows.py",
            "def f():\n    from dovetail.cost.cost import Cost",
            "comm/flows.py:2: comm imports cost",
        ),
        (
            "parallel/plan.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dovetail.evaluate import Outcome",
            "plan.py:3: parallel (decision) imports evaluate (answer)",
        ),
        ("evaluate.py", "from .search import study", "evaluate (answer) imports search (choice)"),
        ("evaluate/__init__.py", "from ..search import study", "evaluate (answer) imports search (choice)"),
        (
            "report/table.py",
            "import importlib\nimportlib.import_module('dovetail.cli')",
            "report (words) imports cli (edges)",
        ),
        ("search/study.py", "from importlib import import_module as load\nload('dovetail.' + x)", "computed name"),
        ("search/study.py", "__import__('dovetail.explorer')", "search (choice) imports explorer (edges)"),
        ("files.py", "from dovetail.store import Store", "both are edges and strangers"),
        ("units.py", "from dovetail.registry import Registry", "both are base and strangers"),
        ("errors.py", "import dovetail.units", "both are base and strangers"),
        ("step/engine.py", "import dovetail", "which is no layer"),
        ("__init__.py", "from dovetail.evaluate import evaluate", "imports nothing"),
    ],
)
def test_an_import_against_the_flow_is_refused(tree, file, text, message):
    [broken] = import_violations(tree({file: text}))
    assert message in broken
    assert file in broken


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (
            "parallel/shard.py",
            "from dovetail.workload.graph import Graph\nfrom dovetail.hardware import chip\nfrom . import plan",
        ),
        ("cost/roofline.py", "from .cost import Cost\nfrom ..parallel import shard\nimport numpy as np"),
        ("cli.py", "from dovetail import __version__, files, store\nfrom dovetail.report import table"),
        (
            "explorer/pages.py",
            "from dovetail.files import read\nfrom dovetail.store import Store\nfrom dovetail.evaluate import evaluate",
        ),
        ("registry.py", "import importlib\nfrom dovetail.errors import X\nimportlib.import_module(name)"),
        ("__main__.py", "from dovetail.cli import main"),
    ],
)
def test_an_import_with_the_flow_is_allowed(tree, file, text):
    assert import_violations(tree({file: text})) == []


def test_a_name_is_taken_from_where_it_is_defined(tree):
    files = {
        "cost/op_cost.py": "LIMITS = ('compute', 'memory')\n",
        "cost/costs.py": "from dovetail.cost.op_cost import LIMITS\ndef op_costs(): ...\n",
        "cost/families/__init__.py": "",
        "report/record.py": "from dovetail.cost.costs import LIMITS, op_costs\nfrom dovetail.cost import families\n",
        "workload/operators.py": "from dovetail.workload.operator_tables import UNIT\n",
        "workload/operator_tables.py": "UNIT = []\n",
        "workload/graph.py": "from dovetail.workload.operators import UNIT\n",
    }
    [broken] = second_hand_violations(tree(files))
    assert "report/record.py:1: takes LIMITS from dovetail.cost.costs" in broken
    assert "has it from dovetail.cost.op_cost.LIMITS" in broken


def test_a_command_that_computes_by_itself_is_refused_and_one_that_names_a_type_is_not(tree):
    files = {
        "cli/trace.py": "def run():\n    from dovetail.comm.trace.run_events import run_events\n",
        "cli/op.py": "from dovetail.api.operators import costed\nfrom dovetail.units import MICRO\n",
        "cli/progress.py": "if TYPE_CHECKING:\n    from dovetail.search.objectives import Objective\n",
        "api/operators.py": "from dovetail.cost.costs import op_costs\n",
    }
    [broken] = computing_violations(tree(files))
    assert "cli/trace.py:2: cli imports dovetail.comm.trace.run_events" in broken


def test_a_module_in_no_row_or_with_an_empty_name_is_refused(tree):
    broken = unknown_layer_violations(tree({"physics/x.py": "", "cost/utils.py": "", "cost/cost.py": ""}))
    assert len(broken) == 2
    assert "'utils' is not a noun of the problem" in broken[0]
    assert "'physics' is in no row" in broken[1]


@pytest.mark.parametrize("library", ["pydantic", "yaml", "typer", "rich.table", "sqlite3"])
def test_an_edge_library_above_the_edges_is_refused(tree, library):
    text = f"def f():\n    import {library}\n"
    [broken] = edge_library_violations(tree({"report/table.py": text, "cli.py": text, "files.py": text}))
    assert f"report/table.py:2: report imports {library}" in broken


def test_a_library_of_an_extra_is_imported_in_its_own_place_alone(tree):
    text = "def f():\n    import torch.nn\n    import onnx\n"
    places = ("importers/torch_model.py", "importers/onnx_model.py", "files/model.py")
    broken = extra_violations(tree(dict.fromkeys(places, text)))
    torch = "torch.nn; only dovetail/importers/torch_*.py and dovetail/measuring/torch_*.py may, as it is an extra"
    assert [line.partition(": imports ")[::2] for line in broken] == [
        ("dovetail/files/model.py:2", torch),
        ("dovetail/files/model.py:3", "onnx; only dovetail/importers/onnx_*.py may, as it is an extra"),
        ("dovetail/importers/onnx_model.py:2", torch),
        ("dovetail/importers/torch_model.py:3", "onnx; only dovetail/importers/onnx_*.py may, as it is an extra"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = open('f')", "uses open (files)"),
        ("def f():\n    print('hello')", "x.py:2: cost uses print (the terminal)"),
        ("log = print", "uses print (the terminal)"),
        ("name = input()", "uses input (the terminal)"),
        ("import os\nx = os.environ['HOME']", "uses os.environ (the environment)"),
        ("import os as o\nx = f(o.getenv('HOME')).y", "uses os.getenv (the environment)"),
        ("from os import environ", "imports os.environ (the environment)"),
        ("import time", "imports time (the clock"),
        ("from time import perf_counter as now", "imports time.perf_counter (the clock"),
        ("import random\nx = random.random()", "uses random.random (shared randomness; take an rng)"),
        ("from random import shuffle", "imports random.shuffle"),
        ("from random import Random\nrng = Random()", "without a seed"),
        ("import numpy as np\nx = np.random.rand(3)", "uses numpy.random.rand"),
        ("import numpy\nx = numpy.random.default_rng()", "uses numpy.random.default_rng"),
        ("from numpy.random import default_rng", "imports numpy.random.default_rng"),
        ("import numpy as np\nx = np.load('f')", "uses numpy.load (files)"),
        ("from datetime import datetime\nx = datetime.now()", "uses datetime.datetime.now (the clock)"),
        ("import datetime as dt\nx = dt.date.today()", "uses datetime.date.today (the clock)"),
        ("from pathlib import Path\nx = Path('f').read_text()", "calls .read_text() (files)"),
        ("x = path.write_text('')", "calls .write_text() (files)"),
        ("from pathlib import Path\nx = (Path('f') / 'g').read_bytes()", "calls .read_bytes() (files)"),
        ("import subprocess", "imports subprocess (other processes)"),
        ("import socket", "imports socket (the network)"),
        ("import sys\nsys.stdout.write('')", "uses sys.stdout.write (the terminal)"),
        ("def f():\n    global x\n    x = 1", "changes global state (x)"),
    ],
)
def test_io_in_the_middle_is_refused_and_at_the_edges_allowed(tree, text, message):
    [broken] = purity_violations(tree({"cost/x.py": text, "cli.py": text, "explorer/pages.py": text}))
    assert message in broken
    assert broken.startswith("dovetail/cost/x.py:")


@pytest.mark.parametrize("layer", sorted(RANK_OF.keys() - EDGES))
def test_every_layer_above_the_edges_is_watched(tree, layer):
    assert len(purity_violations(tree({f"{layer}.py": "print(1)"}))) == 1


def test_pure_code_that_looks_like_io_is_allowed(tree):
    text = """
import sys
import numpy as np
from random import Random
from datetime import datetime
import random

def f(time: float, rng: random.Random, generator: np.random.Generator, when: datetime) -> float:
    fresh = Random(7)
    step = op.read_bytes() + op.open() + time.real
    return rng.random() + generator.normal() + np.log(sys.maxsize)
"""
    assert purity_violations(tree({"cost/x.py": text})) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class A:\n    latency: float", "field 'latency'"),
        ("class A:\n    hbm_bandwidth: float | None = None", "field 'hbm_bandwidth'"),
        ("class A:\n    rates: tuple[tuple[str, float], ...]", "field 'rates'"),
        ("def f(capacity: int) -> None: ...", "parameter 'capacity'"),
        ("def f(*, buffer_size: 'float') -> None: ...", "parameter 'buffer_size'"),
        ("def f(delays: NDArray[np.float64]) -> None: ...", "parameter 'delays'"),
        ("def f(energies: FloatArray) -> None: ...", "parameter 'energies'"),
        ("def transfer_time(x) -> float: ...", "function 'transfer_time'"),
        ("class A:\n    @property\n    def clock(self) -> float: ...", "function 'clock'"),
        ("latency_per_hop: float = 1.0", "field 'latency_per_hop'"),
        ("class A:\n    step_ms: float", "field 'step_ms'"),
        ("class A:\n    hbm_gib: float", "field 'hbm_gib'"),
        ("def f(link_gb_per_s: float) -> None: ...", "parameter 'link_gb_per_s'"),
        ("def f(price_usd_per_hour: float) -> None: ...", "parameter 'price_usd_per_hour'"),
        ("def f(x, idle_pct) -> None: ...", "parameter 'idle_pct'"),
        ("def matmul_flops(m: int) -> int: ...", "function 'matmul_flops'"),
        ("def f():\n    total_ns = 3", "variable 'total_ns'"),
        ("for width_bits in x: ...", "variable 'width_bits'"),
        ("class A:\n    compute_cycles: float", "counts cycles outside cost/"),
    ],
)
def test_a_quantity_without_its_base_unit_is_refused(tree, text, name):
    [broken] = unit_name_violations(tree({"comm/x.py": text, "units.py": text}))
    assert name in broken
    assert broken.startswith("dovetail/comm/x.py:")


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    latency_s: float\n    bandwidth_bytes_per_s: float\n    area_mm2: float\n    idle_w: float",
        "class A:\n    energy: EnergyCosts\n    memory: Memory\n    time_model: str\n    power_gated: bool",
        "def cost(op: Op) -> Cost: ...",
        "def f(clock_hz: float, num_memory_channels: int, batch_size: int, max_num_rates: int) -> None: ...",
        "def f(latency: Callable[[float], float], size: Literal[3]) -> None: ...",
        "def f(memory_level: int, energy_j_per_flop: float, latency_s_per_hop: float) -> None: ...",
        "def tokens_per_s(throughput_tokens_per_s: float) -> float: ...",
        "def f(delays_s: NDArray[np.float64], is_area: NDArray[np.bool_], cost_ratio: float) -> None: ...",
        "class A:\n    size: float  # style: a pure number in the paper's own notation",
        "report_ms: str = 'x'",
        "us = 3",
    ],
)
def test_a_name_that_says_its_unit_or_is_no_number_is_allowed(tree, text):
    assert unit_name_violations(tree({"comm/x.py": text})) == []


def test_ticks_may_exist_where_astra_sim_is_spoken_of(tree):
    assert unit_name_violations(tree({"comm/astra/x.py": "class A:\n    latency_ticks: float"})) == []
    assert unit_name_violations(tree({"comm/x.py": "class A:\n    latency_ticks: float"}))


def test_cycles_may_exist_inside_cost(tree):
    assert unit_name_violations(tree({"cost/x.py": "class A:\n    compute_cycles: float"})) == []


@pytest.mark.parametrize("name", ["s", "step_s", "peak_flop_per_s", "bytes_per_element", "hbm_j_per_byte", "x_frac"])
def test_these_names_say_their_unit(name):
    assert says_its_unit(name)
    assert not hides_a_prefix(name)


@pytest.mark.parametrize("name", ["bandwidth", "latency_per_s", "bytes_per_ms", "time_limit", "memory_per_device"])
def test_these_names_do_not_say_their_unit(name):
    assert not says_its_unit(name)


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("clock_hz = 1e9", "1e9"),
        ("Chip(clock_hz=1.755e9)", "1.755e9"),
        ("x = f(3.35e12)", "3.35e12"),
        ("Link(latency_s=1e-6)", "1e-6"),
        ("Link(latency_s=-5e-7)", "5e-7"),
        ("def f(latency_s: float = 1e-6) -> None: ...", "1e-6"),
        ("x = y * 1024", "1024"),
        ("x = y / 1000.0", "1000.0"),
        ("Memory(capacity_bytes=1024)", "1024"),
        ("x = 80 * 2**30", "2**30"),
        ("x = 10**-9", "10**-9"),
        ("x = 1 << 20", "1 << 20"),
        ("x = 1_000_000", "1_000_000"),
        ("x = 1048576", "1048576"),
        ("x = 0.001", "0.001"),
    ],
)
def test_a_prefix_literal_outside_units_is_refused(tree, text, literal):
    [broken] = prefix_literal_violations(tree({"hardware/catalog/x.py": text, "units.py": text}))
    assert f"{literal} is a prefix in disguise" in broken
    assert broken.startswith("dovetail/hardware/catalog/x.py:1:")


@pytest.mark.parametrize(
    "text",
    [
        "x = 4 * MICRO + 0.5 + 0 + 2.5e2 + 7e-2",
        "hidden = 1024\nf(sequence=1024, tdp_w=1000.0)\nshape = (1024, 1000)",
        "num_nodes = 1_000_000\nf(max_num_steps=10**6)\ndef g(x: int = 3, *, num_evaluations: int = 1000000): ...",
        "TOLERANCE = 1e-9\nisclose(a, b, rel_tol=1e-9, abs_tol=-1e-12)",
        "text = '1e9'\nflag = True\nx = 2**n + 3**2 + (1 << 4)",
        "x = 6.02e23  # style: Avogadro's number, CODATA 2018",
    ],
)
def test_a_plain_number_a_count_or_a_tolerance_is_allowed(tree, text):
    assert prefix_literal_violations(tree({"hardware/catalog/x.py": text})) == []
