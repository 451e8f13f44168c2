"""Searches around real parts: what is answered is what the chip written down simulates to."""

from __future__ import annotations

import pytest

import dovetail as dv

WORKLOAD = {"model": "gpt2-345m", "global_batch": 16, "seq": 256}
INLINE = {"base": "tpu-v6e", "name": "faster-v6e", "hbm": {"bandwidth": "2 TB/s"}}
PLANS = {"tensor_parallel": 1, "pipeline_parallel": 1, "microbatch": [1, 2]}


@pytest.mark.parametrize("base", ["tpu-v4", "tpu-v5e", INLINE], ids=["vector memory", "local memory", "inline"])
def test_a_system_built_on_a_real_part_simulates_to_the_time_that_was_answered(base, tmp_path):
    chip = {
        "base": base,
        "num_tensor": [4, 8],
        "num_rows": 128,
        "num_cols": 128,
        "num_vector": "base",
        "num_lanes": [1024, 2048],
        "sram_mib": [64, "base"],
        "hbm_stacks": "base",
        "stack_gib": "base",
    }
    if base == "tpu-v4":
        chip |= {"dataflow": ["base", "flexible"], "vmem_mib": [8, "base"], "sram_bytes_per_clock": [2048, "base"]}
    found = dv.codesign({"workload": WORKLOAD, "devices": 8, "chip": chip, "space": PLANS})
    assert found.gap_frac == 0
    [(file, text)] = found.specs(tmp_path / "best.yaml").items()
    file.write_text(text, encoding="utf-8")
    assert dv.simulate(str(file)).step_s == pytest.approx(found.step_s[0], rel=1e-9)
    gained, changes = found.gain_frac, found.record["waterfall"]["changes"]
    assert sum(one["added_frac"] for one in changes) == pytest.approx(gained, rel=0.01, abs=1e-9)


@pytest.mark.parametrize("base", ["tpu-v4", INLINE], ids=["vector memory", "inline"])
def test_chips_are_mined_around_real_parts(base):
    chip = {"base": base, "sides": [128], "lanes": [1024, 2048], "counts": [2, 4], "area": "900 mm2", "power": "600 W"}
    found = dv.mine({"workload": WORKLOAD | {"global_batch": 4}, "chip": chip})
    assert found.fits
    assert found.record["base"] == (base if isinstance(base, str) else "faster-v6e")


def test_a_gpu_is_no_base():
    with pytest.raises(dv.InvalidInput, match="systolic arrays, and h100-sxm has none"):
        dv.mine("gpt2-345m", base="h100-sxm")


def test_the_base_of_a_search_takes_what_its_real_pod_takes():
    chip = {"base": "tpu-v4", "num_tensor": "base", "num_rows": 128, "num_cols": 128, "num_vector": "base"}
    memories = {"vmem_bytes_per_clock": [8192, "base"], "sram_mib": "base", "hbm_stacks": "base", "stack_gib": 8}
    workload = WORKLOAD | {"global_batch": 64}
    found = dv.codesign(
        {"workload": workload, "devices": 64, "chip": chip | {"num_lanes": "base"} | memories, "space": PLANS}
    )
    [own] = found.record["base_system"]["models"]
    plan = {key: own["plan"][key] for key in ("data_parallel", "zero_stage", "microbatch", "recompute")}
    simulated = dv.simulate(model="gpt2-345m", cluster="tpu-v4-pod", devices=64, plan=plan, global_batch=64, seq=256)
    assert simulated.step_s == pytest.approx(own["step_s"], rel=1e-9)
    assert found.record["network"] == "tpu-v4-pod"
