"""Plugins from Python and from the command line in one process: taken in, told in words of each, and left behind."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

import dovetail as dv
from dovetail.cli.process import EXIT_BAD_INPUT, main
from dovetail.explorer.work import begin_child
from dovetail.hardware.catalog import chips
from dovetail.plugins import forget, loaded_plugins
from dovetail.store.version import model_version
from tests.plugin_sources import CHIP, COST, plugin


@pytest.fixture
def file(tmp_path: Path):
    """A file with a chip of its own."""
    path = tmp_path / "mine.py"
    path.write_text(plugin(CHIP, name="my-chip").source, encoding="utf-8")
    yield path
    forget()


def test_what_was_taken_in_can_be_named_and_is_told(file):
    assert dv.use_plugin(file) == ("chip my-chip",)
    assert "my-chip" in dv.chips()
    assert dv.op("gelu", 4096, 4096, chip="my-chip").time_s == dv.op("gelu", 4096, 4096, chip="h100-sxm").time_s


def test_a_file_is_one_plugin_however_it_is_called(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    assert dv.use_plugin("mine.py", "./mine.py", file) == 3 * ("chip my-chip",)
    assert [one.path for one in loaded_plugins()] == ["mine.py"]


def test_errors_speak_of_the_argument_and_keep_what_was_raised(file):
    with pytest.raises(dv.InvalidInput, match=r"there is no file .*\(plugin\)"):
        dv.use_plugin(file.with_name("none.py"))
    bad = file.with_name("bad.py")
    bad.write_text(plugin(COST, name="gelu", seconds="rows.nothing").source, encoding="utf-8")
    dv.use_plugin(bad)
    with pytest.raises(dv.InvalidInput, match=r"cost_s of the plugin raises AttributeError: .*bad\.py:5\)") as raised:
        dv.op("gelu", 4096, 4096, chip="h100-sxm")
    assert isinstance(raised.value.__cause__, AttributeError)


def test_a_command_leaves_its_plugins_behind(file, capsys):
    assert main(["chips", "--json", "--plugin", str(file)]) == 0
    assert "my-chip" in {chip["name"] for chip in json.loads(capsys.readouterr().out)["chips"]}
    assert loaded_plugins() == ()
    assert "my-chip" not in chips


def test_a_command_keeps_what_a_program_took_in_before(file, capsys):
    dv.use_plugin(file)
    assert main(["chips", "--plugin", str(file)]) == 0
    assert "my-chip" in chips
    other = file.with_name("other.py")
    other.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["chips", "--plugin", str(other)]) == EXIT_BAD_INPUT
    assert "the chip 'my-chip' is there already, from the plugin" in capsys.readouterr().err
    assert len(loaded_plugins()) == 1


def told(pipe, plugins):
    begin_child(plugins)
    pipe.send((model_version(), "my-chip" in chips))


def test_a_process_of_the_explorer_knows_what_its_server_does(file):
    dv.use_plugin(file)
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe(duplex=False)
    process = context.Process(target=told, args=(theirs, loaded_plugins()))
    process.start()
    theirs.close()
    assert pipe.recv() == (model_version(), True)
    process.join()
