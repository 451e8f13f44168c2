"""Distributed code recorded on one CPU: what it calls, on which streams, and the memory that it holds."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed.fsdp")

import dovetail
from dovetail.errors import InvalidInput, NotModelled
from dovetail.importers.target_jobs import JobTarget, recorded_job
from dovetail.workload.dispatched import (
    BACKWARD,
    COMPUTE_STREAM,
    DispatchedOp,
    DispatchedStep,
    DistributedStep,
    RankStep,
)
from tests.once import computed_once, made_once

HERE = Path(__file__).parent
JOBS = HERE / "distributed_jobs.py"
COMPARED = (
    "fsdp2", "hsdp", "ddp", "ddp_accumulated", "tensor_parallel", "loss_in_parallel", "fsdp2_and_tp", "one_sequence",
    "one_forward_one_backward", "interleaved",
)  # fmt: skip


@cache
def recorded(name: str, world_size: int = 4) -> DistributedStep:
    target = JobTarget(name=f"{JOBS}:{name}")
    return computed_once(f"job-{name}-{world_size}", lambda: recorded_job(target, world_size, gpus_per_node=8))


def script(tmp_path: Path, text: str) -> JobTarget:
    file = tmp_path / "train.py"
    file.write_text(text)
    return JobTarget(name=str(file))


def calls(rank: RankStep) -> list[tuple[str, int, tuple[int, ...]]]:
    found = [op.collective for op in rank.step.ops if op.collective is not None]
    return [(call.kind, call.num_bytes, call.ranks) for call in found]


def collectives(name: str, kind: str, world_size: int = 4) -> list[DispatchedOp]:
    ops = recorded(name, world_size).ranks[0].step.ops
    return [op for op in ops if op.collective is not None and op.collective.kind == kind]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[tuple[str, int, list[int]]]]]:
    """The calls of each of 4 processes that really run, over gloo."""
    folder = made_once(tmp_path_factory, "gloo", run_for_real)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(4)]


def run_for_real(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = subprocess.run(
        [sys.executable, str(HERE / "gloo_run.py"), str(folder), str(port), *COMPARED],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize("name", COMPARED)
def test_recorded_collectives_are_those_of_a_real_run(
    name: str, real: list[dict[str, list[tuple[str, int, list[int]]]]]
) -> None:
    for rank in recorded(name).ranks:
        ran = [(kind, num_bytes, tuple(ranks)) for kind, num_bytes, ranks in real[rank.rank][name]]
        assert calls(rank) == ran


@pytest.mark.parametrize("name", ["tensor_parallel", "fsdp2_and_tp"])
def test_on_64_ranks_kinds_and_bytes_are_those_of_4_and_groups_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_SCALE", "8")  # sizes that 64 ranks divide
    monkeypatch.setenv("JOB_HEADS", "64")
    target = JobTarget(name=f"{JOBS}:{name}")
    [few], [many] = recorded_job(target, 4).ranks, recorded_job(target, 64).ranks
    assert [one[:2] for one in calls(many)] == [one[:2] for one in calls(few)]
    grown = {(0, 1, 2, 3): tuple(range(64)), (0, 2): tuple(range(0, 64, 2)), (0, 1): (0, 1)}
    assert [one[2] for one in calls(many)] == [grown[one[2]] for one in calls(few)]


def test_peak_memory_is_within_2_percent_of_pytorchs_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_SCALE", "8")  # large enough that blocks of 512 bytes are small
    names = ("fsdp2", "tensor_parallel", "fsdp2_and_tp")
    ran = subprocess.run(
        [sys.executable, str(HERE / "tracked_memory.py"), *names],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    for name, tracked_bytes in json.loads(ran.stdout.splitlines()[-1]).items():
        [rank] = recorded_job(JobTarget(name=f"{JOBS}:{name}"), 8).ranks
        assert max(rank.step.live_bytes) == pytest.approx(tracked_bytes, rel=0.02)


def test_fsdp2_gathers_on_streams_of_its_own_and_compute_waits_for_it() -> None:
    ops = recorded("fsdp2").ranks[0].step.ops
    gathers = [place for place, op in enumerate(ops) if op.stream == "fsdp all-gather" and op.collective is not None]
    waited = {place for op in ops if op.stream == COMPUTE_STREAM for place in op.waits}
    assert len(gathers) == 5  # the root and two layers, and again the two layers in the backward pass
    assert set(gathers) <= waited


def test_a_gather_of_the_next_layer_does_not_wait_for_the_layer_before() -> None:
    ops = recorded("fsdp2").ranks[0].step.ops
    backward = [op for op in ops if op.stream == "fsdp all-gather" and op.phase == BACKWARD]
    assert backward
    assert all(
        ops[place].stream != COMPUTE_STREAM or ops[place].collective is None for op in backward for place in op.waits
    )


def test_ddp_reduces_buckets_beside_the_backward_pass_and_waits_at_its_end() -> None:
    ops = recorded("ddp").ranks[0].step.ops
    places = [place for place, op in enumerate(ops) if op.collective is not None]
    waits = [place for place, op in enumerate(ops) if set(op.waits) & set(places) and op.stream == COMPUTE_STREAM]
    assert all(ops[place].stream == "nccl:dp" and ops[place].phase == BACKWARD for place in places)
    assert min(waits) > max(places)


def test_accumulated_gradients_of_two_passes_are_in_one_step() -> None:
    ops = recorded("ddp_accumulated").ranks[0].step.ops
    assert sum(op.name.startswith("aten.embedding.") for op in ops) == 2


def test_groups_are_those_of_the_mesh() -> None:
    step = recorded("fsdp2_and_tp", 8)
    groups = {op.collective.group: op.collective.ranks for op in step.ranks[0].step.ops if op.collective is not None}
    assert step.mesh == (("dp", 4), ("tp", 2))
    assert groups == {"dp": (0, 2, 4, 6), "tp": (0, 1)}


def test_one_rank_of_each_pipeline_stage_is_recorded_with_its_sends() -> None:
    step = recorded("one_forward_one_backward", 8)
    assert [(rank.rank, rank.num_ranks) for rank in step.ranks] == [(0, 2), (1, 2), (2, 2), (3, 2)]
    sends = [
        op.collective for op in step.ranks[1].step.ops if op.collective is not None and op.collective.kind == "send"
    ]
    assert sorted(call.peer for call in sends if call.peer is not None) == [0, 0, 0, 0, 2, 2, 2, 2]


def test_experts_exchange_tokens_by_all_to_alls_of_the_sizes_that_routing_chose() -> None:
    sizes, *tokens = [op.collective for op in collectives("experts", "all-to-all") if op.collective is not None]
    assert sizes.num_bytes == 4 * 8
    assert [call.num_bytes for call in tokens] == 4 * [2 * 16 * 64 * 4]  # tokens of 64 fp32, there and back, twice
    assert sum(tokens[0].bytes_by_rank) == tokens[0].num_bytes


@pytest.mark.parametrize("name", ["fsdp2", "ddp", "one_forward_one_backward"])
def test_allocations_replayed_have_the_peak_of_the_live_bytes(name: str) -> None:
    step = recorded(name).ranks[0].step
    live, peak, sizes = sum(step.state_allocations), 0, [0]
    for event in step.allocations:
        sizes += [event] if event >= 0 else []
        live += event if event >= 0 else -sizes[-event]
        peak = max(peak, live)
    assert peak == max(step.live_bytes)


def test_memory_of_gathered_parameters_is_freed_within_the_step() -> None:
    step = recorded("fsdp2").ranks[0].step
    gathered = [op.collective.num_bytes for op in collectives("fsdp2", "all-gather") if op.collective is not None]
    assert sum(gathered) > max(step.live_bytes) - step.state_bytes


def test_a_script_of_one_step_is_recorded_with_a_note() -> None:
    step = recorded("one_step")
    assert any("makes its moments" in note for note in step.notes)
    assert any(op.name.startswith("aten._fused_adamw") for op in step.ranks[0].step.ops)


def test_a_script_without_an_optimizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"without a step of a torch\.optim optimizer"):
        recorded_job(script(tmp_path, "print('nothing')\n"), 2)


def test_what_a_script_raises_comes_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ValueError: no such corpus \(.*train.py:1\)"):
        recorded_job(script(tmp_path, "raise ValueError('no such corpus')\n"), 2)


def test_code_that_fetches_is_refused_by_the_host_it_connects_to(tmp_path: Path) -> None:
    text = "import urllib.request\nurllib.request.urlopen('http://data.example.org/c4')\n"
    with pytest.raises(InvalidInput, match=r"data\.example\.org.*nothing is fetched"):
        recorded_job(script(tmp_path, text), 2)


def test_cuda_graphs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotModelled, match="CUDA graphs"):
        recorded_job(script(tmp_path, "import torch\ntorch.cuda.CUDAGraph()\n"), 2)


@pytest.mark.parametrize(
    ("text", "call", "why"),
    [
        (
            "from torch.distributed.fsdp import FullyShardedDataParallel as F\nF(torch.nn.Linear(4, 4))",
            "FullySharded",
            "FSDP1",
        ),
        ("from torch.distributed.fsdp import CPUOffloadPolicy\nCPUOffloadPolicy()", "CPUOffloadPolicy", "on the host"),
        ("from torch.utils.cpp_extension import load\nload('k', ['k.cu'])", "cpp_extension.load", "CUDA code"),
        ("from torch.utils.cpp_extension import load_inline\nload_inline('k', '')", "load_inline", "CUDA code"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_its_call_and_line(
    tmp_path: Path, text: str, call: str, why: str
) -> None:
    with pytest.raises(NotModelled, match=rf"{call}\S* at \S*train.py:3 .*{why}"):
        recorded_job(script(tmp_path, f"import torch\n{text}\n"), 2)


def test_what_is_refused_can_still_be_named_in_annotations(tmp_path: Path) -> None:
    text = "import torch\nfrom torch.distributed.fsdp import FullyShardedDataParallel\n"
    text += "def kept(graph: torch.cuda.CUDAGraph | None, model: FullyShardedDataParallel | None) -> None: ...\n"
    text += "assert not isinstance(torch.nn.Linear(4, 4), FullyShardedDataParallel)\n"
    with pytest.raises(InvalidInput, match="without a step"):
        recorded_job(script(tmp_path, text), 2)


def test_a_ring_of_context_parallel_is_refused(tmp_path: Path) -> None:
    text = """
import os, torch, torch.distributed as dist
from torch.distributed.tensor.experimental import context_parallel
dist.init_process_group("nccl")
mesh = dist.init_device_mesh("cuda", (4,), mesh_dim_names=("cp",))
layer = torch.nn.Linear(64, 192).cuda()
x = torch.randn(2, 64, 64, device="cuda")
with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
    q, k, v = layer(x).view(2, x.shape[1], 3, 4, 16).permute(2, 0, 3, 1, 4)
    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
"""
    with pytest.raises(NotModelled, match=r"train.py:10 passes keys and values round a ring .*simulate --cp"):
        recorded_job(script(tmp_path, text), 4)


SPAWNED = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
def worker(rank, num_ranks):
    dist.init_process_group("nccl", rank=rank, world_size=num_ranks)
    torch.cuda.set_device(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda(rank), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        model(torch.randn(8, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
if __name__ == "__main__":
    mp.spawn(worker, args=(NUM,), nprocs=NUM)
"""


def test_of_spawned_processes_the_recorded_rank_runs(tmp_path: Path) -> None:
    [rank] = recorded_job(script(tmp_path, SPAWNED.replace("NUM", "8")), 8).ranks
    assert calls(rank) == [("all-reduce", 4 * (64 * 64 + 64), tuple(range(8)))]


def test_another_number_of_spawned_processes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"train.py:13 starts 3 processes, but --world-size is 8"):
        recorded_job(script(tmp_path, SPAWNED.replace("NUM", "3")), 8)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_rank_ends_with_the_process_that_started_it(tmp_path: Path, sent: signal.Signals) -> None:
    running = tmp_path / "running"
    os.mkfifo(running)  # a pipe, as files that a script writes are temporary
    told, found = os.open(running, os.O_RDONLY | os.O_NONBLOCK), bytearray()

    def has_begun() -> bool:
        with contextlib.suppress(BlockingIOError):
            found.extend(os.read(told, 16))
        return bool(found)

    text = f"import os, time\nopened = os.open({str(running)!r}, os.O_WRONLY)\n"
    target = script(tmp_path, f"{text}os.write(opened, b'%d' % os.getpid())\ntime.sleep(300)\n")
    parent = os.fork()  # one that has imported PyTorch, as a new one would for seconds
    if not parent:
        try:
            recorded_job(target, 2)
        finally:
            os._exit(1)
    assert _became(has_begun)
    os.close(told)
    rank = int(found)
    assert _is_running(rank)
    os.kill(parent, sent)
    assert _became(lambda: os.waitpid(parent, os.WNOHANG)[0] == parent)
    assert _became(lambda: not _is_running(rank))


def _became(is_so: Callable[[], bool]) -> bool:
    end_s = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.05)
    return True


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def test_ranks_that_wait_for_one_another_without_end_are_refused(tmp_path: Path) -> None:
    text = "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
    text += "dist.recv_object_list([None], src=1 - dist.get_rank())\n"
    with pytest.raises(InvalidInput, match="without end"):
        recorded_job(script(tmp_path, text), 2)


def test_a_loss_scaler_steps_as_if_no_gradient_were_infinite(tmp_path: Path) -> None:
    text = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
optimizer, scaler = torch.optim.AdamW(model.parameters(), foreach=True), torch.amp.GradScaler("cuda")
for _ in range(4):
    with torch.autocast("cuda", torch.float16):
        loss = model(torch.randn(8, 64, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
    [rank] = recorded_job(script(tmp_path, text), 8).ranks
    assert calls(rank) == [("all-reduce", 4 * (64 * 64 + 64), tuple(range(8)))]
    assert any(op.inputs[0] is not None and op.inputs[0].dtype == "fp16" for op in rank.step.ops if op.inputs)


def test_a_rank_outside_of_the_job_is_refused() -> None:
    with pytest.raises(InvalidInput, match="0 to 3; got 4"):
        recorded_job(JobTarget(name=f"{JOBS}:ddp"), 4, (4,))


def test_capture_prices_a_job_on_a_cluster_of_its_size() -> None:
    found = dovetail.capture(f"{JOBS}:fsdp2", world_size=16, cluster="dgx-h100")
    assert found.record["name"] == "fsdp2"
    assert found.record["job"]["step_s"] > 0
    assert "dp 16, ZeRO-3" in str(found)


def test_options_of_a_job_need_a_world_size() -> None:
    with pytest.raises(InvalidInput, match="cluster needs world_size, how many processes a job has"):
        dovetail.capture(f"{JOBS}:fsdp2", cluster="dgx-h100")


def test_what_the_script_says_itself_is_refused_with_a_world_size() -> None:
    with pytest.raises(InvalidInput, match="sets this"):
        dovetail.capture(f"{JOBS}:fsdp2", world_size=16, batch=4)


TRAINED = """
import os, torch, torch.distributed as dist
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layers = torch.nn.Sequential(torch.nn.Embedding(64, 64), torch.nn.Linear(64, 64))
model = torch.nn.parallel.DistributedDataParallel(layers.cuda())
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(64, (2, 16), device="cuda")
def step():
    model(tokens).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def all_notes(step: DistributedStep) -> str:
    return "\n".join((*step.notes, *step.ranks[0].step.notes))


def plain_step(tmp_path: Path) -> DispatchedStep:
    return recorded_job(script(tmp_path, TRAINED + "for _ in range(4): step()\n"), 4).ranks[0].step


def plain_ops(tmp_path: Path) -> list[str]:
    return [op.name for op in plain_step(tmp_path).ops]


def test_a_recording_changes_no_file_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = {name: f"precious {name}" for name in ("latest.pt", "log.txt", "old.pt", "model.safetensors", "best.pt")}
    for name, text in kept.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "epochs").mkdir()
    (tmp_path / "epochs" / "1.pt").write_text("one")
    text = (
        TRAINED
        + """
import pathlib, shutil
from safetensors.torch import save_file
for place in range(4):
    step()
    state = {name: one.cpu() for name, one in model.module.state_dict().items()}
    torch.save(state, "latest.pt")
    torch.save({"model": state, "step": place}, pathlib.Path("new.pt"))
    save_file(state, "model.safetensors")
    with open("log.txt", "a") as log:
        log.write("more")
    assert open("log.txt").read() == "precious log.txt" + (place + 1) * "more"
    if place == 0:
        os.remove("old.pt")
        os.makedirs("made/deeper")
        pathlib.Path("made/deeper/notes.txt").write_text("written")
        assert os.path.exists("made/deeper/notes.txt") and os.listdir("made/deeper") == ["notes.txt"]
        os.replace("made/deeper/notes.txt", "best.pt")
        assert pathlib.Path("best.pt").read_text() == "written"
        shutil.rmtree("epochs")
        loaded = torch.load("new.pt", map_location="cuda")
        assert loaded["step"] == 0
        model.module.load_state_dict(loaded["model"])
"""
    )
    step = recorded_job(script(tmp_path, text), 4)
    assert {name: (tmp_path / name).read_text() for name in kept} == kept
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([*kept, "epochs", "train.py"])
    assert (tmp_path / "epochs" / "1.pt").read_text() == "one"
    notes = all_notes(step)
    assert "torch.save('latest.pt') was not carried out" in notes
    assert "save_file('model.safetensors') was not carried out" in notes
    assert "os.remove('old.pt') was not carried out" in notes


def test_a_checkpoint_in_a_step_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        TRAINED
        + """
import torch.distributed.checkpoint as dcp
for place in range(4):
    step()
    dcp.save({"model": model.module.state_dict()}, checkpoint_id=f"dcp/{place}")
    dcp.async_save({"model": model.module.state_dict()}, checkpoint_id="dcp/latest").result()
    torch.save({name: one.detach().cpu() for name, one in model.named_parameters()}, "latest.pt")
"""
    )
    step = recorded_job(script(tmp_path, text), 4)
    assert not (tmp_path / "dcp").exists()
    assert "torch.distributed.checkpoint.save('dcp/0') was not carried out" in all_notes(step)
    names = [op.name for op in step.ranks[0].step.ops]
    assert [name for name in names if "_to_copy" not in name] == plain_ops(tmp_path)


def test_large_copies_to_the_host_take_no_memory_and_are_left_out_with_a_note(tmp_path: Path) -> None:
    text = (
        TRAINED
        + """
big = torch.empty(2**34, device="cuda")
for _ in range(4):
    step()
    assert big.cpu().device.type == "cpu"
    assert torch.ones(2**21, device="cuda").cpu().numpy().shape == (2**21,)
"""
    )
    assert "copies of parameters and other large tensors to the host" in all_notes(
        recorded_job(script(tmp_path, text), 4)
    )


def test_evaluation_between_steps_is_left_out_with_a_note(tmp_path: Path) -> None:
    text = (
        TRAINED
        + """
state = model.state_dict()
for _ in range(4):
    step()
    model.eval()
    with torch.no_grad():
        for _ in range(5):
            torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    model.train()
    torch.save(state, "latest.pt")
    torch.load("latest.pt", map_location="cuda")
"""
    )
    step = recorded_job(script(tmp_path, text), 4)
    assert [op.name for op in step.ranks[0].step.ops] == plain_ops(tmp_path)
    assert "(evaluation) are left out of the step" in all_notes(step)
    assert sum(step.ranks[0].step.module_calls) == sum(plain_step(tmp_path).module_calls)


def test_a_teacher_that_no_optimizer_trains_is_part_of_the_step(tmp_path: Path) -> None:
    text = (
        TRAINED
        + """
teacher = torch.nn.Linear(64, 64).cuda().eval()
for _ in range(4):
    with torch.no_grad():
        aim = teacher(torch.randn(8, 64, device="cuda"))
    step()
"""
    )
    step = recorded_job(script(tmp_path, text), 4)
    assert len(step.ranks[0].step.ops) > len(plain_ops(tmp_path))
    assert "evaluation" not in all_notes(step)


def test_a_compiled_script_is_recorded_as_eager_with_a_note(tmp_path: Path) -> None:
    step = recorded_job(script(tmp_path, TRAINED + "model = torch.compile(model)\nfor _ in range(4): step()\n"), 4)
    assert "torch.compile is left out" in all_notes(step)


def test_classes_and_functions_of_torch_cuda_answer_as_scripts_use_them(tmp_path: Path) -> None:
    text = (
        TRAINED
        + """
torch.cuda.CUDAGraph | None, torch.cuda.device | None, torch.cuda.StreamContext | None
assert isinstance(torch.cuda.device(0), torch.cuda.device)
with torch.cuda.device(1), torch.cuda.stream(torch.cuda.Stream()):
    assert torch.cuda.current_device() == 1
assert torch.cuda.current_device() == 0
torch.cuda.memory_summary()
assert torch.cuda.nccl.version() >= (2, 0)
torch.cuda.memory._record_memory_history(max_entries=1000)
torch.cuda.memory._dump_snapshot("snapshot.pickle")
for _ in range(4): step()
"""
    )
    assert recorded_job(script(tmp_path, text), 4).ranks


def test_checkpoints_are_loaded_onto_the_gpu(tmp_path: Path) -> None:
    """From every place, in one recording: each of them starts processes that import torch."""
    import torch

    torch.save({"1.weight": torch.ones(64, 64)}, tmp_path / "weights.pt")
    text = (
        TRAINED
        + f"""
for place in ("cuda", "cuda:0", torch.device("cuda", 0), {{"cuda:0": "cuda:1"}}, None):
    state = torch.load({str(tmp_path / "weights.pt")!r}, map_location=place)
    found = model.module.load_state_dict(state, strict=False)
    assert not found.unexpected_keys, place
for _ in range(4): step()
"""
    )
    assert recorded_job(script(tmp_path, text), 4).ranks


def test_a_model_of_transformers_trains(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    text = """
import os, torch, torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=256)
model = torch.nn.parallel.DistributedDataParallel(LlamaForCausalLM(config).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    tokens = torch.randint(256, (2, 32), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    [rank] = recorded_job(script(tmp_path, text), 4).ranks
    assert calls(rank)


def test_a_script_for_cpus_is_refused_in_words(tmp_path: Path) -> None:
    text = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
"""
    with pytest.raises(InvalidInput, match=r"for CPUs \(gloo\) is not modelled"):
        recorded_job(script(tmp_path, text), 4)


def test_a_script_that_skips_steps_by_its_loss_learns_what_item_gave(tmp_path: Path) -> None:
    text = (
        TRAINED
        + """
for _ in range(4):
    loss = model(tokens).square().mean()
    loss.backward()
    if loss.item() > 0.4:
        continue
    optimizer.step()
"""
    )
    with pytest.raises(InvalidInput, match=r"as \.item\(\) does, are 0\.5.*may skip the step"):
        recorded_job(script(tmp_path, text), 4)


def test_what_ddp_logs_does_not_reach_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain_ops(tmp_path)
    assert capfd.readouterr().err == ""
