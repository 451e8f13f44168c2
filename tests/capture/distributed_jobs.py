"""Distributed training steps of small models, as a user writes them: on GPUs where there are some, else on the CPU."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812  the name everyone gives it
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)

SCALE = int(os.environ.get("JOB_SCALE", "1"))  # how many times as wide and long
NUM_HEADS = int(os.environ.get("JOB_HEADS", "8"))
WIDTH, HEADS, INNER, VOCAB, SEQ, BATCH, STEPS = 64 * SCALE, NUM_HEADS, 128 * SCALE, 96 * SCALE, 16 * SCALE, 2, 3


def device_type() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def start(*shape: int, names: tuple[str, ...]) -> DeviceMesh:
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device_type() == "cuda" else "gloo")
    if device_type() == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return init_device_mesh(device_type(), shape, mesh_dim_names=names)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q, k, v = (w(x).view(batch, seq, -1, WIDTH // HEADS).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        scores = q @ k.transpose(-2, -1)
        return self.wo((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, seq, -1))


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w1, self.w3 = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.feed_forward = Attention(), FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Decoder(nn.Module):
    def __init__(self, num_layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(num_layers))
        self.norm, self.output = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def train(
    model: nn.Module, *, num_steps: int = STEPS, accumulate: int = 1, clip: bool = False, batch: int = BATCH
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for _ in range(num_steps):
        for _ in range(accumulate):
            tokens = torch.randint(0, VOCAB, (batch, SEQ + 1)).to(device_type())
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
            loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def fsdp2() -> None:
    mesh = start(dist_size(), names=("dp",))
    model = Decoder().to(device_type())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, clip=True)


def hsdp() -> None:
    mesh = start(2, dist_size() // 2, names=("replicate", "shard"))
    model = Decoder().to(device_type())
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model)


def ddp() -> None:
    start(dist_size(), names=("dp",))
    model = Decoder().to(device_type())
    ids = [int(os.environ["LOCAL_RANK"])] if device_type() == "cuda" else None
    train(nn.parallel.DistributedDataParallel(model, device_ids=ids, bucket_cap_mb=0.05))


def ddp_accumulated() -> None:
    start(dist_size(), names=("dp",))
    model = nn.parallel.DistributedDataParallel(Decoder().to(device_type()))
    train(model, accumulate=2)


def _parallelize(model: Decoder, mesh: DeviceMesh, *, is_loss_parallel: bool = False) -> None:
    last = (
        ColwiseParallel(input_layouts=Shard(1), use_local_output=False)
        if is_loss_parallel
        else ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    )
    parallelize_module(
        model,
        mesh,
        {
            "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": last,
        },
    )
    for layer in model.layers:
        parallelize_module(
            layer,
            mesh,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w3": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
            },
        )


def tensor_parallel() -> None:
    mesh = start(dist_size(), names=("tp",))
    model = Decoder().to(device_type())
    _parallelize(model, mesh)
    train(model)


def loss_in_parallel() -> None:
    mesh = start(dist_size(), names=("tp",))
    model = Decoder().to(device_type())
    _parallelize(model, mesh, is_loss_parallel=True)
    with loss_parallel():
        train(model)


def fsdp2_and_tp() -> None:
    mesh = start(dist_size() // 2, 2, names=("dp", "tp"))
    model = Decoder().to(device_type())
    _parallelize(model, mesh["tp"])
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    train(model)


def one_sequence() -> None:
    """With one sequence a gather along it is contiguous, so autograd views what a collective is still filling."""
    mesh = start(dist_size() // 2, 2, names=("dp", "tp"))
    model = Decoder().to(device_type())
    _parallelize(model, mesh["tp"])
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh["dp"], mp_policy=policy)
    fully_shard(model, mesh=mesh["dp"], mp_policy=policy)
    train(model, batch=1)


class Piece(nn.Module):
    """The layers of one pipeline stage."""

    def __init__(self, *, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH) if is_first else None
        self.layer = Block()
        self.output = nn.Linear(WIDTH, VOCAB) if is_last else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x) if self.embedding is not None else x
        x = self.layer(x)
        return self.output(x) if self.output is not None else x


def _pipeline(schedule: type[_PipelineSchedule], num_chunks: int = 1, num_microbatches: int = 4) -> None:
    mesh = start(dist_size() // 4, 4, names=("dp", "pp"))
    device = torch.device(device_type(), torch.cuda.current_device() if device_type() == "cuda" else None)
    place, num_stages = mesh.get_local_rank("pp"), 4 * num_chunks
    indices = range(place, num_stages, 4)
    pieces = [Piece(is_first=index == 0, is_last=index == num_stages - 1).to(device) for index in indices]
    stages = [
        PipelineStage(piece, index, num_stages, device, group=mesh.get_group("pp"))
        for index, piece in zip(indices, pieces, strict=True)
    ]

    def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    run = schedule(stages if num_chunks > 1 else stages[0], num_microbatches, loss_fn=loss_of)
    optimizer = torch.optim.AdamW([one for piece in pieces for one in piece.parameters()], fused=True)
    for _ in range(STEPS):
        tokens = torch.randint(0, VOCAB, (2 * num_microbatches, SEQ + 1)).to(device)
        given = (tokens[:, :-1].contiguous(),) if place == 0 else ()
        run.step(*given, target=tokens[:, 1:].contiguous() if place == 3 else None)
        optimizer.step()
        optimizer.zero_grad()


def gpipe() -> None:
    _pipeline(ScheduleGPipe)


def one_forward_one_backward() -> None:
    _pipeline(Schedule1F1B)


def interleaved() -> None:
    _pipeline(ScheduleInterleaved1F1B, num_chunks=2)


class Experts(nn.Module):
    """A layer of experts, some on each rank: tokens go there and back by two all-to-alls."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group, self.size = group, dist.get_world_size(group)
        self.router = nn.Linear(WIDTH, self.size, bias=False)
        self.expert = FeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        from torch.distributed._functional_collectives import all_to_all_single, all_to_all_single_autograd

        tokens = x.reshape(-1, WIDTH)
        chosen = self.router(tokens).argmax(-1)
        order = chosen.argsort(stable=True)
        counts = torch.bincount(chosen, minlength=self.size)
        received = all_to_all_single(counts, None, None, self.group)
        sent, taken = counts.tolist(), received.tolist()
        there = all_to_all_single_autograd(tokens[order].contiguous(), taken, sent, self.group)
        back = all_to_all_single_autograd(self.expert(there), sent, taken, self.group)
        return x + torch.zeros_like(tokens).index_put((order,), back).view_as(x)


def experts() -> None:
    mesh = start(dist_size(), names=("ep",))
    model = nn.Sequential(nn.Embedding(VOCAB, WIDTH), Experts(mesh.get_group("ep")), nn.Linear(WIDTH, VOCAB))
    train(model.to(device_type()))


def one_step() -> None:
    start(dist_size(), names=("dp",))
    train(nn.parallel.DistributedDataParallel(Decoder().to(device_type())), num_steps=1)


def dist_size() -> int:
    return int(os.environ["WORLD_SIZE"])


JOBS = {
    job.__name__: job
    for job in (
        fsdp2, hsdp, ddp, ddp_accumulated, tensor_parallel, loss_in_parallel, fsdp2_and_tp,
        one_sequence, gpipe,
        one_forward_one_backward, interleaved,
    )
}  # fmt: skip
