"""What `measure` answers, with the CPU in the GPU's place: steps are really run, at sizes of a few elements."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dovetail.api.gpu_measured import chip_name, measured_answer, step_name
from dovetail.api.requests.measurements import MeasureRequest
from dovetail.errors import InvalidInput
from dovetail.files.measurements import load_measurements
from dovetail.measuring import session
from dovetail.measuring.tables import tables
from dovetail.measuring.torch_gpu import Gpu, found_gpu

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 160,
    "max_position_embeddings": 64,
}  # fmt: skip


def cpu() -> Gpu:
    return Gpu(torch=torch, device="cpu")


@pytest.fixture
def config(tmp_path):
    (tmp_path / "tiny-llama").mkdir()
    file = tmp_path / "tiny-llama" / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    return file


def test_a_measured_step_is_put_beside_the_predicted_one(config, tmp_path):
    folder = tmp_path / "out"
    request = MeasureRequest(what=("step", str(config)), batch=2, seq=16, out=str(folder), chip="h200")
    found = measured_answer(request, gpu_found=cpu)
    assert [one.name for one in found.figures] == ["step", "forward pass", "peak memory", "reserved memory"]
    assert all(one.measured > 0 and one.predicted > 0 for one in found.figures)
    assert "tiny-llama b2 s16 eager" in str(found)
    assert {"step_measured_s", "peak_predicted_bytes", "forward_error_frac"} <= set(found.record)
    table = load_measurements(folder / "steps.csv")
    assert table.words("model") == ["tiny-llama"]
    assert "tiny-llama" in (folder / "steps_cases.py").read_text(encoding="utf-8")
    again = measured_answer(request, gpu_found=cpu)
    assert any("already" in note for note in again.notes)
    assert len(load_measurements(folder / "steps.csv")) == 1


def test_a_step_under_autocast_to_another_dtype_is_in_no_table(config, tmp_path):
    request = MeasureRequest(
        what=("step", str(config)), batch=1, seq=8, out=str(tmp_path / "out"), chip="h200", optimizer="sgd"
    )
    found = measured_answer(request, gpu_found=cpu)
    assert any("in no table" in note for note in found.notes)
    assert not (tmp_path / "out").exists()


def test_tables_are_told_with_the_commands_to_go_on(tmp_path, monkeypatch):
    few = replace(tables["bmm"], rows=lambda _gpu: [("2", "8", "8", "8")])
    off = replace(tables["gemm_fp8"], file="gemm_fp8.csv")
    monkeypatch.setattr(session, "chosen_tables", lambda _only: [few, off])
    told: list[str] = []
    found = measured_answer(
        MeasureRequest(out=str(tmp_path / "out")), lambda now: told.append(now.words), gpu_found=cpu
    )
    assert [one["num_measured"] for one in found.record["tables"]] == [1, 0]
    assert "compute capability" in str(found)
    assert "dovetail calibrate" in str(found)
    assert any("left" in words for words in told)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"what": ("step",)}, "measure step config.json"),
        ({"what": ("steps", "config.json")}, "measure step config.json"),
        ({"batch": 4}, "it is for a step"),
        ({"what": ("step", "config.json"), "quick": True}, "leave it out"),
        ({"what": ("step", "model.onnx"), "chip": "h200"}, "ONNX"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_line(asked, words):
    with pytest.raises(InvalidInput, match=words):
        measured_answer(MeasureRequest(**asked), gpu_found=cpu)


def test_an_unknown_card_is_asked_for_its_chip():
    with pytest.raises(InvalidInput, match="name the nearest"):
        measured_answer(MeasureRequest(what=("step", "config.json")), gpu_found=cpu)


def test_a_card_is_the_chip_of_its_name_and_memory(monkeypatch):
    for name, memory_bytes, chip in (
        ("NVIDIA H200", 150e9, "h200-sxm"),
        ("NVIDIA A100-SXM4-40GB", 42e9, "a100-40gb-sxm"),
        ("NVIDIA A100-SXM4-80GB", 85e9, "a100-80gb-sxm"),
        ("NVIDIA GeForce RTX 4090", 25e9, "rtx-4090"),
        ("NVIDIA GeForce GTX 1080", 8e9, ""),
    ):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _place, name=name: name)
        properties = type("Properties", (), {"total_memory": memory_bytes})
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _place, found=properties: found)
        assert chip_name(Gpu(torch=torch)) == chip


def test_rows_call_a_model_as_its_folder_or_file_is_called():
    assert step_name("/models/llama 3/config.json") == "llama-3"
    assert step_name("train.py:factory") == "train"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_there_is_one_line():
    with pytest.raises(InvalidInput, match="measuring needs a GPU"):
        found_gpu()
