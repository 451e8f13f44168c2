"""What the redesign promised beside what it is today.

Goldens and replay are in bar_replay.py, the suite in bar_release.py, all mutants in bar_mutations.py. Speeds
beside 0.1's are measured by `python -m benchmarks.against_base --record`; here the youngest record is read.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.against_base import HELP, OPERATIONS, WHAT, base_facts
from benchmarks.bar import REPOSITORY, Bar
from benchmarks.bar_explorer import serving
from benchmarks.mutants import physics_sources
from benchmarks.mutation_records import LEAST_KILLED_FRAC, digest, recorded, wilson
from benchmarks.stamp import newest_result
from dovetail.api.joint import question_of
from dovetail.evaluate import Outcome, evaluate
from dovetail.files.codesign import CodesignOverrides, load_codesign
from dovetail.files.job import load_spec
from dovetail.search.codesign.answers import base_question
from dovetail.search.codesign.systems import built_systems
from dovetail.search.metrics import metrics
from tests.source_tree import source_modules
from tests.test_glossary import surface, unknown_words
from tests.test_vocabulary import REPLACED, replaced_names
from tests.validation.test_examples_fit import EXAMPLES, MOST_FRAC, fullest_frac

ISSUE = 21
EXAMPLE = REPOSITORY / "examples" / "codesign-two-models.yaml"  # what `make run` searches
LEAST_RATIO = 0.95
MOST_HELP_S = 0.20
BUSY_LOAD = 0.75  # processes by core that run or wait to
UNAUTHORIZED = 401  # RFC 9110, 15.5.2
PAGES = ("/", "/?token=guess", "/_nicegui_ws/socket.io/?EIO=4&transport=polling")
STEP_PACKAGES = ("step", "schedule")  # of the step's time: its name today, and the one that older records have
MUTATE = "run python -m benchmarks.mutations"
PROTOCOLS = REPOSITORY / "docs" / "protocols"
DATE = re.compile(r"\d{4}-\d\d-\d\d")
WALKED = re.compile(r"(\d+) modules, (\d+) calls deep")


def bars() -> Iterator[Bar]:
    yield base_bar()
    yield memory_bar()
    yield token_bar()
    yield vocabulary_bar()
    yield glossary_bar()
    yield walk_bar()
    yield size_bar()
    file = newest_result(WHAT)
    yield from speed_bars(json.loads(file.read_text(encoding="utf-8")) if file else None)
    yield mutants_bar(latest_sample(recorded()), digest(physics_sources()))
    for what in ("drill", "questions"):
        yield protocol_bar(what)


def _bar(name: str, bar: str, measured: str, holds: bool | None, note: str = "") -> Bar:
    return Bar(name=name, issue=ISSUE, bar=bar, measured=measured, holds=holds, note=note)


def base_bar(example: Path = EXAMPLE) -> Bar:
    """What the base chip of the example takes of each of its limits, with as many devices as the space has.

    It is built as the search builds it to compare with, on the network that all systems are compared on.
    """
    spec = load_codesign(str(example), CodesignOverrides())
    num_devices = max(spec.num_devices)
    space = base_question(question_of(spec, metrics["throughput"]), num_devices).space
    columns = {knob.name: np.array(knob.values, dtype=np.float64) for knob in space.knobs}
    shares = spec.budget.shares(built_systems(spec.base, columns), columns["num_devices"])
    named = ", ".join(f"{name} {float(share[0]):.1%}" for name, share in shares.items())
    name = f"the base of `make run`, {num_devices} x {spec.base.name}: share of each limit"
    return _bar(name, "<= 100 %", named, bool(shares) and all(share[0] <= 1 for share in shares.values()))


def memory_bar() -> Bar:
    """The fullest stage of the examples that say a plan, beside what the framework sees of its device."""
    found = {}
    for file in EXAMPLES:
        job = load_spec(str(file))
        result = evaluate(job.workload, job.cluster, job.plan, has_changes=False)
        if isinstance(result, Outcome):
            found[file.stem] = fullest_frac(result.memory, result.plan, job.cluster)
    infeasible = [file.stem for file in EXAMPLES if file.stem not in found]
    fullest = max(found, key=lambda stem: found[stem])
    return _bar(
        "the fullest plan of the examples: share of what PyTorch sees of a device",
        f"<= {MOST_FRAC:.0%}",
        f"{found[fullest]:.1%} ({fullest}), of {len(found)}",
        found[fullest] <= MOST_FRAC and not infeasible,
        f"{', '.join(infeasible)} do not fit" if infeasible else "",
    )


def token_bar() -> Bar:
    """What somebody else on this machine gets from a server on loopback: without its token, and with a wrong one."""
    name, bar = "the explorer on loopback, asked without its token", f"{UNAUTHORIZED} for all"
    if importlib.util.find_spec("nicegui") is None:
        return _bar(name, bar, "-", None, "nicegui is not installed")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as url:
        parts = urlsplit(url)
        statuses = [status_of(f"{parts.scheme}://{parts.netloc}{page}") for page in PAGES]
        known = status_of(url)
    measured = ", ".join(f"{status} for {page}" for page, status in zip(PAGES, statuses, strict=True))
    holds = all(status == UNAUTHORIZED for status in statuses) and known == 200
    return _bar(name, bar, measured, holds, f"{known} with the token")


def status_of(url: str) -> int:
    """The HTTP status of a page, after redirects; cookies are kept on the way, as a browser does."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def vocabulary_bar() -> Bar:
    found = replaced_names(source_modules())
    num_patterns = sum(len(rule.old) for rule in REPLACED)
    where = f"first: {found[0]}" if found else f"{num_patterns} names and patterns, tests/test_vocabulary.py"
    return _bar("names in src of the vocabulary that was replaced", "0", str(len(found)), not found, where)


def glossary_bar() -> Bar:
    found = unknown_words()
    where = (
        f"first: {found[0]}"
        if found
        else f"{len(surface()):,} options, keys, classes and functions, tests/test_glossary.py"
    )
    return _bar(
        "words of options, keys and public names that the glossary lacks", "0", str(len(found)), not found, where
    )


def walk_bar(module: str = "benchmarks.walk") -> Bar:
    """Modules in which a function ran and calls open at once, in a process that has simulated nothing before."""
    base = base_facts()
    name, bar = "one simulate: modules and depth of calls", "reported"
    beside = f"{base['version']}: {base['simulate_modules']} and {base['simulate_depth']}; no bar was set"
    if importlib.util.find_spec(module) is None:
        return _bar(name, bar, "-", None, f"{module} is not here; {beside}")
    ran = subprocess.run([sys.executable, "-m", module], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    lines = ran.stdout.strip().splitlines()
    found = WALKED.search(lines[-1]) if lines else None
    if found is None:
        return _bar(name, bar, "-", False, f"{module} printed no counts and ended with {ran.returncode}")
    return _bar(name, bar, f"{int(found[1])} modules, {int(found[2])} calls deep", None, beside)


def size_bar() -> Bar:
    base, modules = base_facts(), source_modules()
    num_lines = sum(module.text.count("\n") for module in modules)
    beside = f"{base['version']}: {base['num_lines']:,} in {base['num_modules']:,}; no bar was set"
    return _bar(
        "lines and modules of src", "reported", f"{num_lines:,} lines in {len(modules):,} modules", None, beside
    )


def speed_bars(result: Mapping[str, Any] | None) -> Iterator[Bar]:
    """Of a record of `benchmarks.against_base`: each operation, peak memory where it is worst, and `--help`."""
    version = base_facts()["version"]
    least, most_help = f">= {LEAST_RATIO:g} of {version}'s", f"< {MOST_HELP_S:.2f} s"
    names = {one: f"{noun} per CPU-s" for one, noun in OPERATIONS.items()}
    memory, helped = "peak memory, the worst of these", "dovetail --help"
    if result is None:
        why = "not recorded: python -m benchmarks.against_base --record"
        for name, bar in (*((name, least) for name in (*names.values(), memory)), (helped, most_help)):
            yield _bar(name, bar, "-", None, why)
        return
    found, note = result["operations"], _recorded(result)
    for one, name in names.items():
        ratio, now, base = found[one]["speed_ratio"], found[one]["now"], found[one]["base"]
        best = found[one]["best_speed_ratio"]
        measured = f"{ratio:.3f} ({now['per_cpu_s']:,.4g} against {base['per_cpu_s']:,.4g}; best runs {best:.3f})"
        yield _bar(name, least, measured, ratio >= LEAST_RATIO, note)
    worst = min(found, key=lambda one: found[one]["memory_ratio"])
    ratio, now_mib, base_mib = (
        found[worst]["memory_ratio"],
        *(found[worst][side]["peak_bytes"] / 2**20 for side in ("now", "base")),
    )
    measured = f"{ratio:.3f} ({OPERATIONS[worst]}: {now_mib:.0f} against {base_mib:.0f} MiB)"
    yield _bar(memory, least, measured, ratio >= LEAST_RATIO, note)
    now, base = result[HELP]["now"], result[HELP]["base"]
    measured = f"{now['wall_s']:.3f} s, {now['cpu_s']:.3f} CPU-s ({version}: {base['wall_s']:.3f} s)"
    yield _bar(helped, most_help, measured, now["wall_s"] < MOST_HELP_S, note)


def _recorded(result: Mapping[str, Any]) -> str:
    note = f"median of {result['num_pairs']} pairs, {result['commit']} beside {result['base'][:7]}, {result['date']}"
    load = result["load_per_core"]
    return f"{note}; others used the machine, load {load:.1f} per core" if load > BUSY_LOAD else note


def latest_sample(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sample of a record that was tried last, the first one or the one beside it, if that was told by package."""
    beside = results.get("checked", {})
    return beside if "by_package" in beside and beside["date"] >= results["date"] else results


def mutants_bar(results: Mapping[str, Any], sources: str) -> Bar:
    """Mutants of the step's time alone: a good share of all, bar_mutations.py, may hide a poor one of its package."""
    name, bar = "mutants of step time killed", f">= {LEAST_KILLED_FRAC:.0%}"
    package = next((one for one in STEP_PACKAGES if one in results["by_package"]), "")
    if not package:
        return _bar(name, bar, "-", None, f"the record has no package {' or '.join(STEP_PACKAGES)}: {MUTATE}")
    num_tried, num_killed = (results["by_package"][package][what] for what in ("tried", "killed"))
    low, high = wilson(num_killed, num_tried)
    measured = f"{num_killed / num_tried:.1%} ({num_killed} of {num_tried}; {low:.1%} to {high:.1%} of all)"
    is_of_now = results["sources"] == sources
    age = "of today's code" if is_of_now else f"of older code: {MUTATE}"
    note = f"package {package}, recorded {results['date']} at {results['commit']}, {age}"
    return _bar(name, bar, measured, num_killed >= LEAST_KILLED_FRAC * num_tried if is_of_now else None, note)


def protocol_bar(what: str, folder: Path = PROTOCOLS, changelog: str = "") -> Bar:
    """Whether a protocol of `what`, with its day in its name, is younger than the last release."""
    changelog = changelog or (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \d+\.\d+\.\d+ - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)[0]
    pages = {file.name: day[0] for file in folder.glob(f"*{what}*.md") if (day := DATE.search(file.name))}
    younger = sorted((day, name) for name, day in pages.items() if day > released)
    name, bar = f"a protocol of the {what} of the redesign, by a stranger", f"after {released}"
    if not younger:
        return _bar(name, bar, "-", None, f"none in docs/protocols named *{what}* with a day after the release")
    return _bar(name, bar, younger[-1][1], True, "read it for what was touched and found")
