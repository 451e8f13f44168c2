"""What pyproject.toml asks for is what the lock pins, and the wheel runs elsewhere, installed with pip alone."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dovetail import __version__
from dovetail.store.version import model_version, physics_version
from tests.once import made_once

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK_LINES = [
    line
    for line in (ROOT / "requirements" / "test.lock").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
NAME = PROJECT["project"]["name"]
# The unrelated package, where pip is told to install it, or by an extra that only ours has.
PLAIN = re.compile(r"(?<![\w.\-])dovetail\\?\[[a-z{]|pip install(?: +[^,;`\s]+)*? +['\"]?dovetail(?![\w\-])")
WANTED = [
    Requirement(text)
    for text in (
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["test"],
        *PROJECT["build-system"]["requires"],
    )
]


def pins() -> dict[str, str]:
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in LOCK_LINES)}


def test_every_line_of_the_lock_is_a_plain_pin():
    assert LOCK_LINES
    assert [line for line in LOCK_LINES if not re.fullmatch(r"[\w.\-]+==[\w.\-]+", line)] == []


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_what_the_project_asks_for_is_pinned_within_its_range(wanted):
    pinned = pins().get(canonicalize_name(wanted.name))
    assert pinned is not None, f"requirements/test.lock does not pin {wanted.name}; see its first lines"
    assert wanted.specifier.contains(pinned), f"the lock pins {wanted.name} {pinned}, outside {wanted.specifier}"


def test_the_package_itself_is_not_locked():
    assert not {"dovetail", NAME} & set(pins())


def test_the_distribution_is_not_the_unrelated_package_of_that_name():
    assert NAME == "dovetail-codesign"
    assert PROJECT["project"]["scripts"] == {"dovetail": "dovetail.cli:main"}


def test_extras_that_name_the_project_name_the_distribution():
    extras = [Requirement(one) for some in PROJECT["project"]["optional-dependencies"].values() for one in some]
    own = [one for one in extras if canonicalize_name(one.name).startswith("dovetail")]
    assert own
    assert {one.name for one in own} == {NAME}
    assert {extra for one in own for extra in one.extras} <= set(PROJECT["project"]["optional-dependencies"])


def texts() -> Iterator[Path]:
    """Whatever prints or documents how to install something."""
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "Makefile", ROOT / "pyproject.toml")
    for folder, ends in (("src", ".py"), ("docs", ".md"), ("tests", ".py"), ("benchmarks", ".py"), ("examples", "")):
        files = (file for file in (ROOT / folder).rglob(f"*{ends}") if file.is_file())
        known = (file for file in files if file.suffix in (".py", ".md", ".yaml", ".txt", ".ipynb", ".toml"))
        yield from (file for file in known if file != Path(__file__).resolve())  # which says what is wrong


@pytest.mark.parametrize(
    ("text", "is_wrong"),
    [
        ("pip install 'dovetail[" + "ui]'", True),
        ("pip install " + "dovetail", True),
        ('pip install -U --quiet "' + 'dovetail==1"', True),
        ("install " + "dovetail[mine]", True),
        ("uv pip install numpy " + "dovetail", True),
        ("pip install 'dovetail-codesign[ui]'", False),
        ("pip install --editable '.[mine]'", False),
        ("after pip install, dovetail plan answers", False),
    ],
)
def test_plain_dovetail_is_found_in_what_pip_is_told(text, is_wrong):
    assert bool(PLAIN.search(text)) == is_wrong


def test_no_text_has_pip_install_the_unrelated_package():
    told = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in texts()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if PLAIN.search(line)
    ]
    assert told == []


PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
SOURCE = ROOT / "src" / "dovetail"
TIMEOUT_S = 600
KEPT_S = 7 * 24 * 3600  # how long what was downloaded is installed again
UNREACHABLE = re.compile(r"NewConnectionError|ConnectTimeout|ReadTimeout|name resolution|Network is unreachable")
PIPS = ("PIP_", "SSL_", "HTTP", "NO_PROXY", "http", "no_proxy")  # how this machine reaches packages
SMALL = """
name: one small system
models:
  - {model: bert-large, global_batch: 16, seq: 128}
chip:
  {base: tpuv4-like, num_tensor: [4, 8], num_rows: [128], num_cols: [128], num_vector: [2, 4], num_lanes: [128],
   sram_mib: [32, 128], hbm_stacks: [4], stack_gib: [8]}
devices: [4, 8]
budget: {area: 700 mm2}
space: {tensor_parallel: [1, 2], pipeline_parallel: [1], recompute: [none]}
"""
ASKED = {
    "codesign small.yaml --html codesign.html": "optimal in the model, of 16 systems",
    "plan --model llama3-8b --cluster h100x8 --global-batch 8 --fix tp=8 --html plan.html": "in the model: tp 8",
    "simulate --model llama3-8b --cluster h100x8 --plan zero3 --html step.html": "step time",
    "validate array-sims": "predicted against measured",
    "methods": "1f1b",
}
BRIEFLY_ASKED = {words: told for words, told in ASKED.items() if words.startswith("simulate")}
# In one process: each of its own would import the package again.
ANSWER_ALL = """
import contextlib, io, json, sys
from dovetail.cli import main
shown = []
for words in sys.argv[1:]:
    streams = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = main(words.split())
    shown.append([code, *(stream.getvalue() for stream in streams)])
print(json.dumps(shown))
"""
FROM_PYTHON = "import dovetail as dv, json; print(json.dumps([dv.__version__, dv.model_version(), dv.__file__]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `pip wheel .` builds it; by the backend that the lock pins where that is installed."""
    own = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []

    def build(folder: Path) -> None:
        words = ["wheel", "--quiet", "--no-deps", *own, "--wheel-dir", str(folder), str(ROOT)]
        pip([sys.executable, "-m", "pip", *words], dict(os.environ))

    [found] = made_once(tmp_path_factory, "wheel", build).glob("*.whl")
    return found


def dependencies(wheel: Path, version: str, python: Path, environment: dict[str, str]) -> Path:
    """A folder of what pip takes from its index for `wheel`, which it is asked again after a week.

    To read the index's lists of every release takes pip twice as long as to install what it chose.
    """
    wanted = hashlib.sha256("\n".join(PROJECT["project"]["dependencies"]).encode()).hexdigest()[:12]
    folder = ROOT / "build" / "wheels" / f"{version}-{platform.machine()}-{wanted}"
    done = folder / "done"
    if not done.exists() or time.time() - done.stat().st_mtime > KEPT_S:
        shutil.rmtree(folder, ignore_errors=True)
        words = ["download", "--quiet", "--dest", str(folder), str(wheel)]
        pip([sys.executable, "-m", "pip", "--python", str(python), *words], environment)
        (folder / wheel.name).unlink()  # of this run alone
        done.touch()
    return folder


def pip(words: list[str], environment: dict[str, str]) -> None:
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if ran.returncode and UNREACHABLE.search(ran.stderr):
        pytest.skip("no package index can be reached from here")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as held:
        about = f"{NAME.replace('-', '_')}-{__version__}.dist-info/"
        names = {name for name in held.namelist() if not name.startswith(about)}
        metadata = held.read(f"{about}METADATA").decode()
        assert f"{about}licenses/LICENSE" in held.namelist()
    files = (file for file in SOURCE.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    assert names == {f"dovetail/{file.relative_to(SOURCE).as_posix()}" for file in files}
    assert {
        "dovetail/py.typed",
        "dovetail/accuracy/data/residuals.csv",
        "dovetail/hardware/catalog/tpu-v4.yaml",
    } < names
    assert f"\nRequires-Python: {PROJECT['project']['requires-python']}\n" in metadata


def interpreters(version: str) -> Iterator[str]:
    """Where a Python of this version may be: on the path, or behind the shims of pyenv."""
    name = f"python{version}"
    yield from filter(None, [sys.executable if sys.version.startswith(f"{version}.") else "", shutil.which(name)])
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield from (str(found) for found in sorted(Path(folder).parent.glob(f"versions/{version}.*/bin/{name}")))


def runs(interpreter: str, version: str) -> bool:
    check = f"import sys, venv, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    return (
        subprocess.run([interpreter, "-c", check], capture_output=True, check=False, timeout=TIMEOUT_S).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_installs_elsewhere_with_pip_alone_and_answers(version, wheel, tmp_path):
    """In a fresh environment, with an empty home, in a folder that has nothing of ours.

    The oldest and the newest Python answer all that is asked; those between them one command, and compile every module.
    """
    found = next((each for each in interpreters(version) if runs(each, version)), None)
    if found is None:
        pytest.skip(f"there is no Python {version} here that can make virtual environments")
    home, folder = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    folder.mkdir()
    clean = {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    venv = [found, "-m", "venv", "--without-pip", str(tmp_path / "venv")]  # the pip that is here installs into it
    subprocess.run(venv, env=clean, check=True, timeout=TIMEOUT_S)
    own = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    reaching = clean | {name: value for name, value in os.environ.items() if name.startswith(PIPS)}
    kept = dependencies(wheel, version, own / "python", reaching)
    install = ["install", "--quiet", "--no-index", "--find" + "-links", str(kept)]  # a folder of this run
    install += ["--no-compile", str(wheel)]  # compiling all of plotly takes longest, for nothing
    pip([sys.executable, "-m", "pip", "--python", str(own / "python"), *install], reaching)

    def answer(*words: str) -> str:
        ran = subprocess.run(
            words, cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
        assert (ran.returncode, ran.stderr) == (0, ""), (words, ran.stdout, ran.stderr)
        return ran.stdout

    (folder / "small.yaml").write_text(SMALL, encoding="utf-8")
    told = f"dovetail {__version__} (model {model_version()}, physics {physics_version()})\n"
    assert answer(str(own / "dovetail"), "--version") == told
    asked = ASKED if version in (PYTHONS[0], PYTHONS[-1]) else BRIEFLY_ASKED
    shown = json.loads(answer(str(own / "python"), "-c", ANSWER_ALL, *asked))
    for (words, told), [code, out, err] in zip(asked.items(), shown, strict=True):
        assert (code, err) == (0, ""), words
        assert told in out, words
    pages = [words.rpartition(" ")[2] for words in asked if "--html" in words]
    assert pages
    assert all((folder / page).stat().st_size > 10_000 for page in pages)
    *versions, file = json.loads(answer(str(own / "python"), "-c", FROM_PYTHON))
    assert versions == [__version__, model_version()]
    assert Path(file).is_relative_to(tmp_path)
    answer(str(own / "python"), "-m", "compileall", "-q", str(Path(file).parent))  # every module, used above or not
