"""Calls on a part of a step: `op` costs one operator, `schedule` one block on a chip, `network` one collective."""

# Annotations are evaluated here: the options in them are what commands are built from.
from typing import TYPE_CHECKING, Annotated

from dovetail.api.requests.option import (
    COUNT,
    FLAG,
    REPEATED,
    VALUE,
    Kind,
    Option,
    Request,
    argument,
    python_call,
)

if TYPE_CHECKING:
    from typing import SupportsIndex  # in annotations that are text

    from dovetail.api.networks import Collective
    from dovetail.api.operators import Operator
    from dovetail.api.scheduled import BlockSchedule
    from dovetail.files.python_values import ChipLike, ModelLike

SMS = Kind(parse=lambda _, text: text or "", check=lambda _, value: "" if value is None else str(value))


@python_call
def op(
    kind: Annotated[
        "str",
        argument(
            "An operator, such as matmul, attention, convolution, layernorm, gelu or adam; list names them all.",
            "KIND",
        ),
    ],
    *dims: Annotated[
        "SupportsIndex | str",
        argument("M N K of a product; rows and columns; channels in, out and side of a convolution.", "SIZE", REPEATED),
    ],
    chip: Annotated[
        "ChipLike", Option("A chip: name, the beginning of one such as h200, or a file.", "NAME", VALUE)
    ] = "",
    dtype: Annotated["str", Option("What it is computed in.", "DTYPE")] = "bf16",
    direction: Annotated[
        "str",
        Option("forward, input-grad or weight-grad; sizes stay those of the forward product.", "PASS", flag="--pass"),
    ] = "forward",
    batch: Annotated["SupportsIndex", Option("Products, samples or images at once.", "N", COUNT)] = 1,
    heads: Annotated["SupportsIndex", Option("Attention heads.", "N", COUNT)] = 1,
    kv_heads: Annotated["SupportsIndex | None", Option("Key-value heads, where fewer.", "N", COUNT)] = None,
    seq: Annotated["SupportsIndex | None", Option("Sequence length of attention.", "N", COUNT)] = None,
    head_dim: Annotated["SupportsIndex | None", Option("Width of an attention head.", "N", COUNT)] = None,
    causal: Annotated["bool", Option("Attention to earlier tokens only.", kind=FLAG)] = False,
    kernel: Annotated["SupportsIndex", Option("Side of a convolution's window.", "N", COUNT)] = 1,
    stride: Annotated["SupportsIndex", Option("Stride of a convolution.", "N", COUNT)] = 1,
    table_rows: Annotated["SupportsIndex", Option("Rows of the table an embedding looks up in.", "N", COUNT)] = 1,
    fused: Annotated[
        "bool", Option("One kernel with the least passes over memory, not PyTorch's own.", kind=FLAG)
    ] = False,
    setting: Annotated[
        "str",
        Option(
            "alone (idle queue, cold caches), kernel (its kernels' time) or stream (behind others, full clock).", "HOW"
        ),
    ] = "alone",
    compare: Annotated["bool", Option("Beside a roofline and closed forms.", kind=FLAG)] = False,
) -> "Operator":
    """Cost one operator on one chip, and say what limits it.

    `kind` is one of `dovetail.operator_kinds()`, such as matmul, attention or layernorm; `dims` are M, N and K of a
    product, rows and columns, or as one text, "4096x4096x4096". `chip` is a name, the beginning of one such as h200,
    a file, a mapping or a `Chip`. `direction` is forward, input-grad or weight-grad; sizes stay those of forward.
    """
    request = OpRequest.of_arguments(locals())
    from dovetail.api.operators import costed

    return costed(request)


class OpRequest(Request, of=op):
    """What `dovetail op` and `dovetail.op` are asked."""


@python_call
def schedule(
    model: Annotated["ModelLike", argument("A model: name, file or Hugging Face config.json.", "MODEL")],
    *,
    chip: Annotated[
        "ChipLike", Option("A chip: name, the beginning of one such as tpuv2, or a file.", "NAME", VALUE)
    ] = "",
    block: Annotated[
        "str", Option("A block of the model, such as layer or head; the layer that repeats most if none.", "NAME")
    ] = "",
    batch: Annotated["SupportsIndex", Option("Samples at once.", "N", COUNT)] = 1,
    seq: Annotated["SupportsIndex | None", Option("Sequence length of a sample.", "N", COUNT)] = None,
    recompute: Annotated["str", Option("none, selective, norm-activation, selective-op or full.", "POLICY")] = "none",
    exact: Annotated[
        "bool",
        Option(
            "The best schedule, by CP-SAT, or the best found within --time and its gap; needs the extra mine.",
            kind=FLAG,
        ),
    ] = False,
    time: Annotated["str", Option("How long --exact may take; 60 s, if left out.", "TIME")] = "",
    workers: Annotated[
        "SupportsIndex | None", Option("Threads of --exact; 1, if left out, with which answers repeat.", "N", COUNT)
    ] = None,
) -> "BlockSchedule":
    """Schedule the operators of a block on the cores of a chip.

    Forward, backward and update of one block, the layer that repeats most if none is named. `exact` is the best
    schedule, or the best found within `time`, such as "60 s", by `workers` threads; it needs the extra mine.
    """
    request = ScheduleRequest.of_arguments(locals())
    from dovetail.api.scheduled import scheduled

    return scheduled(request)


class ScheduleRequest(Request, of=schedule):
    """What `dovetail schedule` and `dovetail.schedule` are asked."""


@python_call
def network(
    collective: Annotated[
        "str",
        argument(
            "all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce or point-to-point.", "COLLECTIVE"
        ),
    ],
    *,
    size: Annotated[
        "str", Option('What one rank holds, such as "64 MiB"; 1MiB..1GiB doubles from one to the other.', "SIZE")
    ] = "",
    topology: Annotated[
        "str",
        Option(
            'Dimensions, innermost first, such as "ring:8@50GB/s,500ns x switch:4@25GB/s,1us"; 8..64 devices double'
            " too. Or a catalogue cluster, or a YAML file with nodes and links.",
            "NETWORK",
        ),
    ] = "",
    algorithm: Annotated[
        "str",
        Option(
            "By the library, as NCCL_ALGO: ring, tree, nvls, nvls-tree or pat. By events: ring, direct,"
            " halving-doubling, double-binary-tree, in-switch or nvls; x=ring,y=direct for one each. Otherwise what"
            " the library selects, or what suits each dimension.",
            "NAME",
        ),
    ] = "",
    engine: Annotated[
        "str",
        Option(
            "library, events or closed. Otherwise the library that a catalogue cluster names, such as NCCL, and events"
            " where there is none, or with --chunks, --groups, --slow or a timeline.",
            "ENGINE",
        ),
    ] = "",
    chunks: Annotated["SupportsIndex", Option("Chunks the payload is cut into.", "N", COUNT)] = 1,
    active: Annotated["SupportsIndex", Option("Chunks under way at once in a dimension.", "N", COUNT)] = 1,
    policy: Annotated["str", Option("Who is next: fifo, lifo or priority.", "POLICY")] = "fifo",
    themis: Annotated["bool", Option("Each chunk starts in the least loaded dimension.", kind=FLAG)] = False,
    groups: Annotated[
        "str", Option("Devices that take part, group by group: 0-3;4-7. Otherwise all in one.", "GROUPS")
    ] = "",
    dims: Annotated["str", Option("Groups along these dimensions only, such as x,y.", "NAMES")] = "",
    slow: Annotated[
        "str", Option("Links at a share of their bandwidth: 2-3=0.5, or 2>3=0 for one way, broken.", "LINKS")
    ] = "",
    endpoint: Annotated[
        "str",
        Option("What moves bytes through the chip: sm, dma, ace, ici, in-switch, near-memory or ideal.", "NAME"),
    ] = "",
    memory: Annotated[
        "str",
        Option('Memory bandwidth it may use, reads and writes each: "450 GB/s"; 100GB/s..800GB/s doubles.', "RATE"),
    ] = "",
    sms: Annotated[
        "str | int | None",
        Option(
            'SMs it may use, and what each reads: 6, or "6@40GB/s". Otherwise a measured chip\'s rate, or 80 GB/s'
            " (ACE).",
            "N",
            SMS,
        ),
    ] = None,
) -> "Collective":
    """Time one collective on one network, chunk by chunk.

    `collective` is all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce or point-to-point; `size` is
    what one rank holds, such as "64 MiB", and "1MiB..1GiB" doubles from one to the other. `topology` has dimensions,
    innermost first, such as "ring:8@50GB/s,500ns x switch:4@25GB/s,1us", or is a catalogue cluster or a file.
    `endpoint` is what moves bytes through the chip, given `memory` bandwidth or `sms`.
    """
    request = NetworkRequest.of_arguments(locals())
    from dovetail.api.networks import networked

    return networked(request)


class NetworkRequest(Request, of=network):
    """What `dovetail network` and `dovetail.network` are asked."""
