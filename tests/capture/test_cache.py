"""Captures are kept under a hash of all that decides them: the same is found again, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dovetail as dv
from dovetail.files import capture_cache
from dovetail.importers import captures
from dovetail.importers.content import config_key, file_key
from dovetail.importers.torch_model import begun_module

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
    """To be called where no second recording may be made from then on."""
    return lambda: monkeypatch.setattr("dovetail.importers.torch_model.Begun.finished", refused)


def test_the_second_time_it_runs_once_and_the_rest_is_kept(never_again, kept):
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


def with_hook() -> nn.Module:
    net = Net()
    net.first.register_forward_hook(lambda _module, _inputs, output: output + 1)
    return net


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "as it is": (Net(), rows()),
    "another batch": (Net(), rows(8)),
    "another width": (Net(32), rows(4, 32)),
    "another dtype": (Net().to(torch.bfloat16), rows().to(torch.bfloat16)),
    "another forward": (Other(), rows()),
    "shared weights": (tied(), rows()),
    "frozen weights": (frozen(), rows()),
    "a hook": (with_hook(), rows()),
}


def digest(model: nn.Module, inputs: Any) -> str:
    return begun_module(model, inputs).digest


def test_whatever_runs_otherwise_has_a_hash_of_its_own():
    found = {words: digest(model, inputs) for words, (model, inputs) in DIFFERENT.items()}
    assert len(set(found.values())) == len(found), found


@pytest.mark.parametrize("words", DIFFERENT)
def test_the_same_has_the_same_hash_whatever_its_numbers_are(words):
    model, inputs = DIFFERENT[words]
    before = digest(model, inputs)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    assert digest(model, inputs) == before


def test_a_hash_does_not_depend_on_the_process():
    code = (
        "import torch\nfrom dovetail.importers.torch_model import begun_module\n"
        "m = torch.nn.Sequential(torch.nn.Embedding(10, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 10))\n"
        "found = begun_module(m, torch.zeros(2, 8, dtype=torch.int64)).digest"
    )
    own: dict[str, str] = {}
    exec(code, own)
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another than that of this process
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{code}\nprint(found)"],
        env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert told.stdout.strip() == own["found"]


OWN = """
import enum, functools, torch
from torch import nn
{before}
class Own(nn.Module):
    {inside}
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x, times={default}):
        for _ in range({times}):
            x = self.a(x)
        return x

def made():
    return Own(), torch.zeros(2, 4)
"""
REACHED = {
    "a default": {"default": "NUM", "times": "times"},
    "a list of the class": {"inside": "K = [0] * NUM", "times": "len(self.K)"},
    "a dict of the class": {"inside": 'K = {"n": NUM}', "times": 'self.K["n"]'},
    "an attribute of an attribute": {"before": "class O: pass\nO.x = O()\nO.x.n = NUM", "times": "O.x.n"},
    "a member": {"before": "class E(enum.Enum):\n    a = NUM", "times": "E.a.value"},
    "a part": {"before": "P = functools.partial(int, NUM)", "times": "P()"},
}


@pytest.mark.parametrize("words", REACHED)
def test_whatever_the_code_reaches_is_seen_as_it_runs(words, tmp_path):
    """No look at code can find all that a forward pass depends on; running it does."""
    found = []
    for num in ("1", "3"):
        text = OWN.format(**{"before": "", "inside": "pass", "default": "1"} | REACHED[words])
        file = tmp_path / f"own_{num}.py"
        file.write_text(text.replace("NUM", num), encoding="utf-8")
        found.append(dv.capture(f"{file}:made", name="own").record["forward_flop"])
    assert found[1] == 3 * found[0]


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
    assert set(captures.CaptureJob.__dataclass_fields__) == in_keys | {"is_kept"}


def expanded(folder: Path, times: int) -> Path:
    """A file whose one constant, how often rows are repeated, lies beside it."""
    onnx = pytest.importorskip("onnx", reason="onnx, an extra, is not installed")
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    sizes = numpy_helper.from_array(np.array([1, times, 16], dtype=np.int64), "sizes")
    weight = numpy_helper.from_array(np.ones((16, 16), dtype=np.float32), "weight")
    nodes = [
        helper.make_node("Expand", ["x", "sizes"], ["wide"]),
        helper.make_node("MatMul", ["wide", "weight"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "expanded", [x], [y], [sizes, weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    file = folder / "model.onnx"
    (folder / "beside.bin").unlink(missing_ok=True)
    onnx.save_model(model, str(file), save_as_external_data=True, location="beside.bin", size_threshold=0)
    return file


def test_numbers_that_lie_beside_an_onnx_file_are_in_its_key(tmp_path):
    first = expanded(tmp_path, 4)
    content = first.read_bytes()
    narrow = dv.capture(first)
    assert dv.capture(first).is_from_cache
    wide = dv.capture(expanded(tmp_path, 256))
    assert first.read_bytes() == content  # the file itself says the same
    assert not wide.is_from_cache
    assert wide.record["training_flop"] == 64 * narrow.record["training_flop"]
