"""GPUs of all makers: the constants that NVIDIA's parts share, at a part's own clock."""

from __future__ import annotations

from dovetail.hardware.chip import Calibration
from dovetail.hardware.families import Family, LeftOut, families
from dovetail.units import GIGA, MICRO

# One set for all NVIDIA parts; what waits on the chip waits for clocks, so that a part differs by its datasheet alone.
# Fitted together on 1,781 GEMMs of one H200 (PyTorch 2.11) and 4,524 published ones of A100, H100 and H200 (SGLang,
# vLLM); shares of HBM, waits and the host on 176 vector operators and 223 attentions of the H200, and on its eager
# steps. Links: 360 of 450 GB/s in public nccl-tests (recalled).
REFERENCE_CLOCK_HZ = 1.83 * GIGA  # at which the H100's and H200's peaks are stated, and the times below
GPU_FIT = "4,524 published GEMMs of A100, H100 and H200, and 2,180 GEMMs, vector operators and attentions of one H200"

# Equal GPUs, of NVIDIA and AMD, differ in pace by 8 % on average over five clusters, 22 % at most (Sinha et al. 2022,
# arXiv:2208.11035, abstract). Estimate: 8 % taken as the range of a normal spread over a dozen of them, which published
# runs of ten publishers bear out (decision 90).
CLOCK_SPREAD_FRAC = 0.024


def gpu_calibration(clock_hz: float, host_slower: float = 1.0) -> Calibration:
    """The shared calibration of GPUs at a part's clock: what waits on the chip waits for clocks."""
    slower = REFERENCE_CLOCK_HZ / clock_hz
    return Calibration(
        tensor_frac=0.867,
        lanes_frac=0.869,  # 2,217 fp32 products of an A100 and a V100 (sitar-lab/NeuSight, torch 2.1)
        vector_frac=1.0,  # slots of the kernels are counted at the full rate
        hbm_frac=0.90,
        link_frac=0.80,
        exchange_s=40 * MICRO,  # nccl-tests on eight GPUs: 64 MB at three quarters of the pace of 1 GB (recalled)
        launch_s=slower * 1.9 * MICRO,
        alone_s=3.5 * MICRO,
        fill_s=slower * 0.88 * MICRO,
        tile_step_s=slower * 0.05 * MICRO,
        split_s=slower * 3.62 * MICRO,
        sram_reuse=3.65,
        stream_frac=0.89,
        write_frac=0.78,
        wait_s=slower * 0.61 * MICRO,
        clock_spread_frac=CLOCK_SPREAD_FRAC,
        power_loop_s=385 * MICRO,
        host_kernel_s=host_slower * 7.6 * MICRO,
        host_gradient_s=host_slower * 16.5 * MICRO,
        host_autograd_s=host_slower * 49 * MICRO,
        host_exchange_s=host_slower * 20 * MICRO,
        host_op_s=host_slower * 35 * MICRO,
        host_call_s=host_slower * 150 * MICRO,
        host_backward_s=host_slower * 400 * MICRO,
        host_rerun_s=host_slower * 1280 * MICRO,
        fitted_on=GPU_FIT,
        family="gpu",
    )


GPU_CALIBRATION = gpu_calibration(REFERENCE_CLOCK_HZ)  # of the H100 and H200
# Of the runs that intervals rest on, those of a generation that has no part in the fit.
GPU_LEFT_OUT = LeftOut(
    spread_frac=0.135, measured_on="139 published steps of Blackwell, none of whose products it was fitted on"
)
families.register("gpu")(
    Family(
        name="gpu",
        summary="NVIDIA's GPUs, and those of others with a share of peak of their own",
        calibration=gpu_calibration,
        fitted=(
            "tensor_frac",
            "hbm_frac",
            "launch_s",
            "alone_s",
            "fill_s",
            "tile_step_s",
            "split_s",
            "sram_reuse",
            "stream_frac",
            "write_frac",
            "wait_s",
            "power_loop_s",
        ),
        source=f"fitted on {GPU_FIT}; estimate: vector_frac; link_frac recalled from public nccl-tests",
        left_out=GPU_LEFT_OUT,
    )
)
