"""Which cluster a calibration begins with, by what logs call their GPUs."""

from __future__ import annotations

import contextlib

import pytest

from dovetail.api.calibrated import calibrated_chip, calibrated_library
from dovetail.api.recorded_steps import steps_in
from dovetail.errors import InvalidInput
from dovetail.files.chip import load_chip
from dovetail.files.cluster import cluster_of
from dovetail.files.entry import spoken
from dovetail.files.measurements import load_measurements
from dovetail.hardware.catalog import chips
from dovetail.step.eager import HostPace, eager_step
from dovetail.units import MILLI
from tests.collective_logs import COLUMNS, END, NAMED, ROWS, START, devices


def fitted(tmp_path, product, cluster=""):
    log, out = tmp_path / "log.txt", tmp_path / "out.yaml"
    log.write_text(NAMED + START + devices(product=product) + COLUMNS + "".join(ROWS[:3]) + END, encoding="utf-8")
    report = calibrated_library(
        [str(log)], cluster, "", str(out), is_forced=True, announce=lambda _: contextlib.nullcontext()
    )
    return report, out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("product", "base"),
    [
        ("NVIDIA A100-SXM4-80GB", "dgx-a100"),
        ("NVIDIA H100 80GB HBM3", "dgx-h100"),
        ("NVIDIA B300 SXM6 AC", "dgx-b300"),
        ("NVIDIA GB200", "gb200-nvl72"),
        ("gb200-nvl72", "gb200-nvl72"),
    ],
)
def test_a_log_is_of_the_cluster_with_its_gpus(tmp_path, product, base):
    report, text = fitted(tmp_path, product)
    assert f"base: '{base}'\n" in text
    assert not any("rows are of" in note for note in report.notes)


@pytest.mark.parametrize("product", ["NVIDIA H100 NVL", "NVIDIA H100 PCIe", "NVIDIA GH200 480GB"])
def test_cards_and_others_of_a_like_name_are_asked_for_their_cluster(tmp_path, product):
    with pytest.raises(InvalidInput, match="no catalogue cluster is of platform"):
        fitted(tmp_path, product)


def test_another_chip_than_the_log_names_is_told(tmp_path):
    report, _ = fitted(tmp_path, "NVIDIA H20", "dgx-h100")
    assert "the rows are of NVIDIA H20, and dgx-h100 has h100-sxm" in report.notes


def test_a_cluster_without_such_a_library_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="by XLA on ICI"):
        fitted(tmp_path, "NVIDIA H100 80GB HBM3", "tpu-v4-pod")


def test_a_file_begun_at_a_sized_name_takes_other_sizes(tmp_path):
    _, text = fitted(tmp_path, "NVIDIA H100 80GB HBM3", "h100x16")
    assert text.splitlines()[1:3] == ["base: 'dgx-h100'", "devices: 16  # of the largest log; any other will do"]
    assert cluster_of(spoken(str(tmp_path / "out.yaml")), 64).num_devices == 64


CASES = """CONFIGS = {"tiny": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=32,
    vocab_size=160, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)}
"""
STEPS = "model,batch,seq,mode,recompute,amp,params,attn,iter_ms,iter_ms_min,fwd_ms,peak_gib,reserved_gib\n"


@contextlib.contextmanager
def quietly(_words):
    yield lambda _: None


def test_steps_that_wait_for_the_host_fit_its_pace(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "my_cases.py").write_text(CASES, encoding="utf-8")
    table, out = tmp_path / "steps.csv", tmp_path / "mine.yaml"
    row = "tiny,{},16,eager,0,0,1,sdpa,{},1,1,1,1\n"
    table.write_text(STEPS + row.format(1, 1), encoding="utf-8")
    [step], _, notes = steps_in(table, load_measurements(table), lambda _: None)
    assert notes == ()
    slow_ms = eager_step(step, chips["h200-sxm"](), HostPace(slowdown=2.0)).step_s / MILLI
    rows = row.format(1, slow_ms) + "unknown,1,16,eager,0,0,1,sdpa,5,1,1,1,1\n"
    table.write_text(STEPS + rows, encoding="utf-8")
    found = calibrated_chip([str(table)], "h200", "", str(out), is_forced=False, announce=quietly)
    assert found.fit.chip.calibration.host_slowdown == pytest.approx(2.0, rel=0.01)
    assert [name for name, _, _ in found.fit.fitted] == ["host_slowdown"]
    assert load_chip(str(out)).calibration.host_slowdown == pytest.approx(2.0, rel=0.01)
    assert any("1 step that waits for the host" in note for note in found.skipped)
    assert any("no configuration is named 'unknown'" in note for note in found.skipped)
