from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.accuracy.prepared import Prepared, TableContext, dtypes_of
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.validation import validation
from dovetail.cost.costs import op_costs
from dovetail.cost.op_cost import Setting
from dovetail.cost.phaze_area import phaze_mm2
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.units import MEBI, MICRO
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis
from tests.unit.accuracy.tables import table

GEMM = "m,n,k,layout,time_us\n1024,2048,512,nt,10\n1024,2048,512,tn,20\n"
LAYER = (
    "model,tp,micro_batch,seq,hidden,ffn,heads,kv_heads,head_dim,gated,causal,mode,fwd_bwd_ms\n"
    "small,8,1,1024,1024,4096,16,16,64,0,1,eager,2\nlarge,1,2,4096,8192,28672,64,8,128,1,1,eager,90\n"
)
STEP = "model,layers,micro_batch,seq,recompute,mode,iter_ms\ngpt2-345m,2,2,1024,0,eager,10\n"
ARRAYS = (
    "tool,kind,M,K,N,H_padded,W_padded,FH,FW,Cin,Cout,stride,array_rows,array_cols,num_arrays,dataflow,cycles,"
    "stall_cycles,precision_bits,sram_total_MB,dram_bw,clock_GHz,energy_pJ,notes\n"
    "SCALE-Sim,gemm,16,16,16,,,,,,,,8,8,1,os,129,10,,,,,,\n"
    "SCALE-Sim,conv,,,,230,230,7,7,3,64,2,32,32,1,ws,5,0,,,,,,\n"
    "ZigZag,gemm,256,256,256,,,,,,,,128,128,1,ws (D1:K),1539,515,16,16,6554,,19497585,\n"
    "AccelForge,gemm,256,256,256,,,,,,,,128,128,4,ws (tpu_v4i.yaml),336,,8,128,614,1.05,,\n"
    "Sunstone,gemm,64,64,64,,,,,,,,32,32,1,searched,256,,,16,,,,per-PE L2 buffer 16384 B\n"
    "Sunstone,gemm,64,64,64,,,,,,,,32,32,1,searched,256,,,,,,,\n"
)


def one(text: str, name: str = "mine", **given) -> Prepared:
    [found] = prepared(table(text, name), TableContext(**given))
    return found


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("m,n,k,time_us", "gemm"),
        ("b,m,n,k,time_us,tflops", "bmm"),
        ("M,N,K,time_us_avg", "tpu-gemm"),
        ("system,device,gemm_dtype,m,n,k,latency_ms", "published-gemm"),
        ("mem_id,source,quality,model,metric,value_gib", "published-memory"),
        ("batch,heads,kv_heads,seq,head_dim,causal,pass,time_us", "attention"),
        ("op,rows,cols,dtype,time_us", "vector"),
        ("batch,cin,cout,kernel,stride,hw_in,repeat,pass,time_us", "convolution"),
        (LAYER.partition("\n")[0], "layers"),
        (STEP.partition("\n")[0], "steps"),
        (ARRAYS.partition("\n")[0], "array-sims"),
        ("num_tc,num_vc,width,depth,width_vc,GLB_Buffer,area", "phaze-area"),
        ("op,detail,watts_mean", "power"),
        ("collective,comm_size_bytes,backend,topology_yaml,system_json,sim_time_ns", "astra-collectives"),
        ("workload,nodes_per_npu,backend,topology_yaml,system_json,sim_time_ns", "astra-steps"),
        ("compute,comm_blocks,slowdown", "contention"),
        ("compute,direction,copy_alone_gbps,slowdown", "contention-copies"),
        ("compute,slowdown", ""),
    ],
)
def test_a_table_is_known_by_its_columns(header, name):
    assert format_of(table(f"{header}\n")) == name


def test_products_are_predicted_as_operators_of_their_shape_and_pass():
    found = one(GEMM)
    assert found.kinds == ("forward", "weight-grad")
    assert found.whats == ("1024x2048x512", "1024x2048x512")
    assert found.measured.tolist() == pytest.approx([10e-6, 20e-6])
    build = BlockBuilder("b", "bf16", (1024, Axis.NONE), (512, Axis.NONE))
    build.linear(0, (1024, Axis.NONE), (512, Axis.NONE), (2048, Axis.NONE), name="x")
    alone = op_costs(build.block().ops, chips["h200-sxm"](), Setting.ALONE).compute_s[1]
    assert found.predicted(found.chip)[0] == pytest.approx(alone)


def test_the_dtype_is_as_given_or_of_a_column_or_of_the_name_or_bf16():
    plain = table(GEMM)
    assert set(dtypes_of(plain, TableContext())) == {"bf16"}
    assert set(dtypes_of(replace(plain, name="gemm_fp8"), TableContext())) == {"fp8"}
    assert set(dtypes_of(replace(plain, name="gemm_fp8"), TableContext(dtype="fp16"))) == {"fp16"}
    spelt = table("m,gemm_dtype\n1,bfloat16\n1,float8_e4m3fn\n1,fp64\n")
    assert dtypes_of(spelt, TableContext()) == ["bf16", "fp8", ""]


def test_half_as_many_bytes_and_twice_the_rate_make_fp8_faster():
    large = "m,n,k,time_us\n8192,8192,8192,1\n"
    assert np.all(one(large, "x_fp8").predicted(chips["h200-sxm"]()) < one(large).predicted(chips["h200-sxm"]()))


def test_rows_of_a_dtype_that_the_chip_has_no_rate_for_are_counted():
    found = one("m,n,k,dtype,time_us\n8,8,8,fp8,1\n8,8,8,bf16,1\n", chip=chips["a100-80gb-sxm"]())
    assert len(found.measured) == 1
    assert found.skipped == (("rows in fp8, for which a100-80gb-sxm has no rate", 1),)


def test_bars_hold_for_the_chip_they_were_made_for_and_no_other():
    assert one(GEMM).promise == "h200 gemm random shapes"
    assert one(GEMM, "gemm_fp8").promise == "h200 gemm fp8"
    assert one("model," + GEMM.replace("\n1024", "\nx,1024")).promise == "h200 gemm model shapes"
    assert one(GEMM, chip=chips["h100-sxm"]()).promise == ""


def test_a_table_of_several_gpus_gives_a_set_each_and_counts_unknown_ones():
    text = "system,gemm_dtype,m,n,k,latency_ms\n" + "".join(
        f"{name},bfloat16,64,64,64,0.01\n" for name in ("a100_sxm", "b200_sxm", "h100_sxm", "abacus")
    )
    found = prepared(table(text), TableContext())
    assert [each.name for each in found] == ["gemm a100-80gb-sxm", "gemm b200", "gemm h100-sxm"]
    assert {each.promise for each in found} == {"published gemm"}
    assert found[0].skipped == (("rows of abacus, which no catalogue has; pass --chip", 1),)
    with pytest.raises(InvalidInput, match="no system of this table is in the catalogue: abacus"):
        prepared(table("system,gemm_dtype,m,n,k,latency_ms\nabacus,bfloat16,1,1,1,1\n"), TableContext())


def test_a_tpu_table_is_of_one_chip_unless_another_is_given():
    text = "M,N,K,time_us_avg\n128,128,128,1.3\n"
    assert one(text).name == "gemm tpu-v4"
    assert one(text).promise == "tpu gemm"
    assert one(text, chip=chips["tpu-v5e"](), dtype="bf16").promise == ""
    tiled = prepared(table("M,N,K,tiles_M,tiles_N,time_us\n1024,1024,1024,1,8,43.84\n"), TableContext())
    assert [each.name for each in tiled] == ["gemm tpu-v4, XLA's tiles", "gemm tpu-v4, our tiles"]
    assert tiled[0].predicted(tiled[0].chip)[0] == pytest.approx(43.84e-6, rel=0.06)


def test_a_batch_of_products_takes_longer_than_one():
    found = one("b,m,n,k,time_us\n1,512,512,512,5\n64,512,512,512,50\n")
    short_s, long_s = found.predicted(found.chip)
    assert long_s > 5 * short_s
    assert found.whats[1] == "64x512x512x512"


def test_causal_attention_does_half_the_work_and_backward_more_than_forward():
    text = "batch,heads,kv_heads,seq,head_dim,causal,pass,time_us\n"
    text += "".join(f"4,32,8,4096,128,{causal},{way},9\n" for causal in (0, 1) for way in ("fwd", "bwd"))
    found = one(text)
    whole_s, whole_back_s, half_s, half_back_s = found.predicted(found.chip)
    assert half_s < 0.6 * whole_s
    assert half_back_s > 1.5 * half_s
    assert whole_back_s > half_back_s
    assert found.kinds == ("forward", "backward") * 2
    assert found.whats[2] == "b4 h32/8 s4096 d128 causal"


def test_a_misspelt_pass_is_refused_with_its_line():
    text = "batch,heads,kv_heads,seq,head_dim,causal,pass,time_us\n4,32,8,4096,128,0,fwdd,9\n"
    with pytest.raises(InvalidInput, match=r"no pass is named 'fwdd'; did you mean fwd\? \(mine.csv:2\)"):
        one(text)


def test_convolutions_are_the_products_that_the_graph_has():
    text = "batch,cin,cout,kernel,stride,hw_in,repeat,pass,time_us\n"
    found = one(text + "".join(f"32,64,64,3,1,56,3,{way},9\n" for way in ("fwd", "dgrad", "wgrad")))
    assert found.kinds == ("forward", "input-grad", "weight-grad")
    assert found.whats[0] == "b32 64->64 3x3/1 of 56"
    assert np.all(found.predicted(found.chip) > 0)


def test_vector_operators_are_found_by_name_and_what_is_not_modelled_is_counted():
    text = "op,rows,cols,dtype,time_us\n"
    for name in ("gelu", "gelu_bwd", "embedding_bwd_v50304", "embedding_bag_pool80", "adamw_fused_fp32", "warp_drive"):
        text += f"{name},4096,1024,bf16,10\n"
    found = one(text)
    assert found.kinds == ("gelu", "gelu_bwd", "embedding_bwd_v50304", "embedding_bag_pool80", "adamw_fused_fp32")
    assert found.skipped == (("rows of warp_drive, which is not modelled", 1),)
    gelu_s, back_s, _, bag_s, adam_s = found.predicted(found.chip)
    assert back_s > gelu_s  # one tensor more to read
    assert bag_s > 10 * gelu_s  # eighty rows looked up for each one
    assert adam_s > 3 * gelu_s  # 28 bytes an element


def test_layers_that_wait_for_the_host_are_a_set_of_their_own():
    device, host = prepared(table(LAYER, "layers"), TableContext())
    assert (device.name, host.name) == ("layers", "layers host-bound")
    assert (device.promise, host.promise) == ("h200 layers", "")
    assert device.whats == ("large tp1 mb2 s4096",)
    assert host.whats == ("small tp8 mb1 s1024",)
    assert device.measured.tolist() == pytest.approx([0.090])


def test_steps_of_unknown_models_or_modes_are_counted():
    found = one(STEP + "gpt-9,2,2,1024,0,eager,10\ngpt2-345m,2,2,1024,1,magic,10\n", "models")
    assert found.whats == ("gpt2-345m 2L mb2 s1024",)
    assert found.predicted(found.chip)[0] > 0
    assert [count for _, count in found.skipped] == [1, 1]
    assert "mode 'magic' is not modelled" in found.skipped[0][0]


def test_a_step_with_recompute_takes_longer():
    found = one(STEP + "gpt2-345m,2,2,1024,1,eager,10\n", "models")
    plain_s, again_s = found.predicted(found.chip)
    assert again_s > plain_s


def test_simulated_cycles_are_met_exactly_or_overlapped_by_tool():
    scale_sim, zigzag, energy, mapped, forge, sunstone = prepared(table(ARRAYS), TableContext())
    assert (scale_sim.name, scale_sim.promise, scale_sim.unit) == ("SCALE-Sim", "scale-sim", "cycles")
    assert scale_sim.measured[0] == scale_sim.predicted(scale_sim.chip)[0] == 119
    assert (zigzag.promise, energy.promise, energy.unit) == ("zigzag", "zigzag energy", "J")
    assert zigzag.measured.tolist() == mapped.measured.tolist() == [1539]
    loads = 128 * 128 / 128  # a tile of weights
    shown = 2 * (256 * 256 + 256 * 128) / (6554 / 8)  # inputs before, the last tile of results after
    assert zigzag.predicted(zigzag.chip)[0] == pytest.approx(4 * 256 + loads + shown)
    assert (forge.promise, sunstone.promise) == ("accelforge", "")
    assert forge.predicted(forge.chip)[0] > 256 * 256 * 256 / (4 * 128 * 128)
    assert scale_sim.skipped == (("rows of sunstone without an array, a dataflow or a shape", 1),)


@pytest.mark.parametrize(("scale", "holds"), [(1.0, True), (1.0001, False)])
def test_areas_of_phaze_must_be_met_to_the_last_digits(scale, holds):
    chip = {"num_tensor_units": 8, "num_rows": 128, "num_cols": 128, "num_vector_units": 8, "num_lanes": 128}
    area_mm2 = float(phaze_mm2(**chip, sram_bytes=16 * MEBI))
    text = f"num_tc,num_vc,width,depth,width_vc,GLB_Buffer,area\n8,8,128,128,128,16777216,{scale * area_mm2 / MICRO}\n"
    [found] = validation([one(text)]).sets
    assert found.scored[0].judged[0].holds == holds
    assert found.chip == ""


def test_power_rows_are_compared_in_watts_between_idle_and_the_limit():
    text = "op,detail,watts_mean\nidle,,118\ngemm,1024^3,288\ngemm,8192x1024x4096,680\ngemm_zeros,8192^3,400\n"
    text += "copy,64MiB,560\nattention_fwd,4x32x2048x128 causal,682\ngelu,16384x8192,691\nwarp_drive,9,1\n"
    found = one(text)
    assert (found.unit, found.promise) == ("W", "h200 power")
    assert found.kinds == ("idle", "gemm", "gemm", "gemm_zeros", "copy", "attention_fwd", "gelu")
    assert sum(count for _, count in found.skipped) == 1
    watts = found.predicted(found.chip)
    assert watts[0] == found.chip.energy.idle_w
    assert np.all(watts[1:] > watts[0])
    assert np.all(watts <= found.chip.tdp_w * 1.001)
    assert watts[3] < watts[2]  # zeros switch little


def test_a_table_that_lacks_a_column_is_told_which():
    with pytest.raises(InvalidInput) as refused:
        prepared(table("m,n,k\n1,2,3\n"), TableContext())
    assert str(refused.value) == "column time_us missing; a table of gemm has m, n, k, time_us (mine.csv)"
    with pytest.raises(InvalidInput, match="no known table has these columns; known are array-sims, astra-collectives"):
        prepared(table("alpha,beta\n1,2\n"), TableContext())


def test_rows_with_a_blank_cell_are_counted_and_a_table_of_them_refused():
    assert one("m,n,k,time_us\n1,2,3,\n1,2,3,4\n").skipped == (("rows with a blank cell", 1),)
    with pytest.raises(InvalidInput, match="at least one row with m, n, k, time_us"):
        one("m,n,k,time_us\n1,2,3,\n")


def test_a_dtype_that_is_none_is_refused():
    with pytest.raises(InvalidInput, match="no dtype is named 'bf61'; did you mean bf16"):
        one(GEMM, dtype="bf61")


def test_a_set_is_scored_as_a_whole_and_kind_by_kind():
    found = validation([one(GEMM)], ("a note",), num_worst=1)
    [scored] = found.sets
    assert [part.kind for part in scored.scored] == ["", "forward", "weight-grad"]
    assert [part.score.num_rows for part in scored.scored] == [2, 1, 1]
    assert len(scored.scored[0].score.worst) == 1
    assert found.notes == ("a note",)
    assert len(found.missed) == (0 if scored.scored[0].judged[0].holds else 1)
