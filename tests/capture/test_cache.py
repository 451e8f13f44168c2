"""Captures are kept under a hash of all that decides them: the same is found again, and nothing else is."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dovetail as dv
from dovetail.capture import captures
from dovetail.capture.content import Unhashable, config_key, file_key, module_key
from dovetail.files import capture_cache

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 16


class Net(nn.Module):
    """Two layers and a number that `forward` reads."""

    def __init__(self, width: int = WIDTH, scale: float = 1.0) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))) * self.scale


def rows(num: int = 4, width: int = WIDTH) -> torch.Tensor:
    return torch.zeros(num, width)


def refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("it was recorded again")


@pytest.fixture
def never_again(monkeypatch):
    """To be called where nothing may be recorded from then on."""
    return lambda: monkeypatch.setattr("dovetail.capture.torch_model.captured_module", refused)


def test_the_second_time_nothing_is_recorded(never_again, kept):
    first = dv.capture(Net(), rows())
    assert not first.is_from_cache
    assert len(list(kept.iterdir())) == 1
    never_again()
    second = dv.capture(Net(), rows())
    assert second.is_from_cache
    assert second.captured == first.captured
    assert second.record == first.record | {"is_from_cache": True}


@pytest.mark.parametrize(
    "module", [nn.LSTM(8, 8, batch_first=True), nn.TransformerEncoderLayer(8, 2, 8)], ids=lambda m: type(m).__name__
)
def test_modules_of_pytorch_are_kept(module):
    inputs = torch.zeros(2, 4, 8)
    assert dv.capture(module, inputs).remarks == ()
    assert dv.capture(module, inputs).is_from_cache


def test_without_a_cache_nothing_is_kept_or_taken(kept):
    dv.capture(Net(), rows(), cache=False)
    assert not kept.exists()
    dv.capture(Net(), rows())
    assert not dv.capture(Net(), rows(), cache=False).is_from_cache


def changed_forward(self: Net, x: torch.Tensor) -> torch.Tensor:
    return self.second(torch.sigmoid(self.first(x)) * self.scale)


class Other(Net):
    """The same by its parts, and another `forward`."""

    forward = changed_forward


def tied() -> nn.Module:
    net = Net()
    net.second.weight = net.first.weight
    return net


def frozen() -> nn.Module:
    net = Net()
    net.first.weight.requires_grad_(False)
    return net


def with_buffer() -> nn.Module:
    net = Net()
    net.register_buffer("mask", torch.zeros(3))
    return net


def with_hook() -> nn.Module:
    net = Net()
    net.first.register_forward_hook(lambda _module, _inputs, output: output + 1)
    return net


DIFFERENT: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "as it is": (Net(), rows(), {}),
    "another batch": (Net(), rows(8), {}),
    "another width": (Net(32), rows(4, 32), {}),
    "another attribute": (Net(scale=2.0), rows(), {}),
    "another dtype": (Net().to(torch.bfloat16), rows().to(torch.bfloat16), {}),
    "not training": (Net().eval(), rows(), {}),
    "another forward": (Other(), rows(), {}),
    "shared weights": (tied(), rows(), {}),
    "frozen weights": (frozen(), rows(), {}),
    "a buffer": (with_buffer(), rows(), {}),
    "a hook": (with_hook(), rows(), {}),
    "inputs of meta": (Net(), rows().to("meta"), {}),
    "a mask": (Net(), {"x": rows(), "mask": torch.ones(4)}, {}),
    "another mask": (Net(), {"x": rows(), "mask": torch.zeros(4)}, {}),
    "truth": (Net(), (rows(), torch.ones(4, dtype=torch.bool)), {}),
    "no truth": (Net(), (rows(), torch.zeros(4, dtype=torch.bool)), {}),
    "inputs by name": (Net(), {"x": rows()}, {}),
    "a name": (Net(), rows(), {"name": "net"}),
    "a dim of positions": (Net(), rows(), {"seq_dim": 1}),
}


def test_everything_that_decides_a_capture_has_a_key_of_its_own():
    keys = {words: module_key(model, inputs, **said) for words, (model, inputs, said) in DIFFERENT.items()}
    assert len(set(keys.values())) == len(keys), keys


@pytest.mark.parametrize("words", DIFFERENT)
def test_the_same_has_the_same_key_whatever_its_numbers_are(words):
    model, inputs, said = DIFFERENT[words]
    before = module_key(model, inputs, **said)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert module_key(model, inputs, **said) == before


def test_numbers_of_other_inputs_are_not_looked_at():
    assert module_key(Net(), torch.ones(4, WIDTH)) == module_key(Net(), rows())


def test_a_key_does_not_depend_on_the_process():
    code = (
        "import torch, transformers as t\nfrom dovetail.capture import content\n"
        "content.code_digest = lambda: 'the same'  # somebody may edit it meanwhile\n"
        "with torch.device('meta'): m = t.GPT2LMHeadModel(t.GPT2Config(n_layer=2))\n"
        "print(content.module_key(m, {'input_ids': torch.empty(2, 8, dtype=torch.int64)}))"
    )
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    keys = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(keys) == 1


OWN_NET = """
import logging, torch
from torch import nn
import own_part
from own_part import curve

log = logging.getLogger("own")
{more}

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x):
        log.debug("running")
        return curve(self.a(x)) * own_part.SCALE
"""
OWN_PART = """
import torch
from types import SimpleNamespace
{before}
CHOSEN = SimpleNamespace(bend="{bend}", kinds={{"b", "a", "c"}})
SCALE = {scale}

def curve(x):
    return bent(x) if CHOSEN.bend else x

def bent(x):
    return torch.{function}(x)
"""
PLAIN = {"before": "", "bend": "yes", "scale": 2, "function": "relu", "more": ""}


@pytest.fixture
def own_key(tmp_path, monkeypatch):
    """The key of a model of two modules of the user's, freshly imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def key(**changes: Any) -> str:
        words = PLAIN | changes
        for name, text in (("own_part", OWN_PART), ("own_net", OWN_NET)):
            (tmp_path / f"{name}.py").write_text(text.format(**words))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return module_key(importlib.import_module("own_net").Own(), torch.zeros(2, 4))

    yield key
    for name in ("own_part", "own_net"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "changes", [{}, {"before": "# said"}, {"before": "\n\n"}, {"more": "unrelated = [1]"}], ids=str
)
def test_where_code_stands_and_what_nobody_uses_does_not_count(own_key, changes):
    assert own_key(**changes) == own_key()


@pytest.mark.parametrize("changes", [{"function": "tanh"}, {"bend": ""}, {"scale": 3}], ids=str)
def test_what_code_of_the_users_reaches_counts(own_key, changes):
    """A function behind a function, a constant of another module, a value that a function looks up."""
    assert own_key(**changes) != own_key()


def test_a_file_that_has_changed_since_it_was_imported_does_not_count(own_key, tmp_path):
    before = own_key()
    (tmp_path / "own_part.py").write_text("raise AssertionError\n")
    assert module_key(sys.modules["own_net"].Own(), torch.zeros(2, 4)) == before


def test_what_cannot_be_told_apart_is_captured_and_not_kept(kept):
    net = Net()
    net.lock = threading.Lock()
    with pytest.raises(Unhashable, match="lock"):
        module_key(net, rows())
    del net.lock
    net.where = [object()]
    found = dv.capture(net, rows())
    assert "cannot be told apart: where" in found.remarks[0]
    assert not kept.exists()


class Shy:
    """Raises as it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __deepcopy__(self, memo: Any) -> Shy:
        return self


def test_an_attribute_that_raises_costs_the_cache_alone(kept):
    net = Net()
    net.shy = Shy()
    found = dv.capture(net, rows())
    assert found.remarks == ("this capture is not kept: looking at the module raises RuntimeError",)
    assert not kept.exists()


def damaged(file: Path, how: str) -> None:
    data = file.read_bytes()
    file.write_bytes(
        {"cut": data[:-40], "empty": b"", "flipped": data.replace(b"relu", b"rely"), "noise": b"\xff\0"}[how]
    )


@pytest.mark.parametrize("how", ["cut", "empty", "flipped", "noise"])
def test_a_damaged_entry_is_captured_anew_and_mended(kept, how):
    first = dv.capture(Net(), rows())
    [file] = kept.iterdir()
    damaged(file, how)
    second = dv.capture(Net(), rows())
    assert not second.is_from_cache
    assert second.captured == first.captured
    assert dv.capture(Net(), rows()).is_from_cache


def test_an_entry_that_another_dovetail_wrote_is_as_good_as_none(kept):
    dv.capture(Net(), rows())
    [file] = kept.iterdir()
    _, _, text = file.read_bytes().partition(b"\n")
    other = text.replace(b'"version": 1', b'"version": 7')
    file.write_bytes(capture_cache._digest(other) + b"\n" + other)
    assert not dv.capture(Net(), rows()).is_from_cache


def test_a_folder_that_cannot_be_written_to_is_a_remark(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found = dv.capture(Net(), rows())
    [remark] = found.remarks
    assert remark.startswith("this capture is not kept: cannot write to ")
    assert remark in found.record["remarks"]


def test_the_oldest_entries_go(kept, monkeypatch):
    monkeypatch.setattr(capture_cache, "MAX_ENTRIES", 2)
    for place, name in enumerate(("a", "b", "c")):
        dv.capture(Net(), rows(), name=name)
        for file in kept.iterdir():
            if file.stat().st_mtime > 1000:
                os.utime(file, (place, place))
    assert len(list(kept.iterdir())) == 2
    assert [dv.capture(Net(), rows(), name=name).is_from_cache for name in ("c", "b")] == [True, True]


def test_half_an_entry_is_never_there(kept, monkeypatch):
    """What is written goes beside the entry first."""

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dovetail.files.written.os.replace", full)
    found = dv.capture(Net(), rows())
    assert "no space left" in found.remarks[0]
    assert list(kept.iterdir()) == []


def test_keys_of_files_and_configurations_go_by_what_they_say():
    assert config_key({"a": 1, "b": 2}, seq=3) == config_key({"b": 2, "a": 1}, seq=3)
    some = [config_key({"a": 1}, seq=3), config_key({"a": 1}, seq=4), config_key({"a": 2}, seq=3)]
    more = [file_key("x", seq=3), file_key("y", seq=3), file_key("x", seq=4)]
    assert len({*some, *more}) == 6


def test_a_relative_cache_folder_is_not_one(monkeypatch):
    """As the specification has it: such a value is ignored."""
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert capture_cache.cache_folder() == Path("~/.cache/dovetail/captures").expanduser()


def test_what_was_asked_is_all_in_the_key():
    """A field added to the question must go into the keys too: this test names those that do."""
    in_keys = {"model", "example_inputs", "name", "batch", "seq", "seq_dim"}
    assert set(captures.CaptureAsked.__dataclass_fields__) == in_keys | {"is_kept"}
