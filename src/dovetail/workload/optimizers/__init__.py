"""Optimizers, one file each: the state they keep, what an update computes and sends, and their names in frameworks.

Saving a file here is all it takes: memory, time, energy, FLOP, checkpoints, the planners, `dovetail op`, the listing of
methods and the launchers read the entry and nothing else. `docs/howto/add-an-optimizer.md` walks through one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.registry import Registry, holding, named
from dovetail.workload.operator_tables import Operator, Pass, Unit, operators

# Those that a plan can be written for, each with its name for an optimizer, or listed as lacking it. DeepSpeed's own
# configuration goes for data parallelism alone, Megatron-DeepSpeed's arguments for the rest.
FRAMEWORKS = (
    "megatron-lm",
    "megatron-bridge",
    "torchtitan",
    "fsdp2",
    "maxtext",
    "deepspeed",
    "megatron-deepspeed",
)
SCALE_BYTES = 4.0  # of the fp32 scale that a block of quantised state shares


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One tensor that an optimizer keeps for each parameter tensor.

    Its elements take `element_bytes`, or what `precision.moments` says where that is 0. It has the parameter's shape,
    or, where `is_factored`, one row and one column of it. `scale_block` elements share one fp32 scale; 0 is none.
    """

    name: str
    element_bytes: float = 0.0
    is_factored: bool = False
    scale_block: int = 0

    def bytes_per_element(self, moments_bytes: float) -> float:
        """With the scale's share; `moments_bytes` are those of `precision.moments`."""
        scale_bytes = SCALE_BYTES / self.scale_block if self.scale_block else 0.0
        return (self.element_bytes or moments_bytes) + scale_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """`num_runs` products C[m,n] = A[m,k] B[k,n], one after another; `adds`: a matrix like C is read and added."""

    m: int
    n: int
    k: int
    num_runs: int = 1
    adds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCollective:
    """A collective that an update waits for, after gradients are reduced and before weights are written.

    Over 'data', the ranks that hold the same parameters, only where ZeRO shards state: then over all of a device's
    matrices. Over 'tensor' only for matrices that tensor parallelism cuts, of which ZeRO leaves a rank its share.
    It carries the 'matrices' themselves or their rows and columns, the 'factors'.
    """

    collective: Literal["all-gather", "all-reduce"]
    over: Literal["data", "tensor"]
    carries: Literal["matrices", "factors"]
    element_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """How the parameters of one group are updated.

    `operator` names the element-wise operator, of `flop_per_parameter`. It reads the gradient, reads and writes all
    state and the master weight, writes the weight, and moves `scratch_bytes` a parameter besides. `products` are those
    of one matrix of so many rows and columns, taken in bf16 on the tensor units by the rank that updates it.
    """

    operator: str
    flop_per_parameter: float
    states: tuple[State, ...]
    scratch_bytes: float = 0.0
    products: Callable[[int, int], tuple[Product, ...]] | None = None
    collectives: tuple[UpdateCollective, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchName:
    """What a framework calls an optimizer, with the place that says so.

    `sharded` is its name where ZeRO-1 shards it, if that is another one and no flag of its own. `arguments` are further
    ones that make it the optimizer that is modelled here. `since` is the first release that has it, where that is later
    than what launches are written for. `can_narrow_moments` and `can_offload`: whether the framework
    keeps its moments in less than fp32, and runs it on the host.
    """

    name: str
    source: str
    sharded: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    since: str = ""
    can_narrow_moments: bool = False
    can_offload: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOffered:
    """A framework without an optimizer, and why. With its source."""

    why: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizer:
    """One way of updating parameters.

    `update` goes for all parameters. Where there is a `matrix_update` it goes for matrices instead: of 'hidden' layers
    (linear layers, experts and recurrences between embedding and head), or 'all' of them, embedding and head too.
    `is_momentum_optional`: its one state can be left out. `launch` has an entry for each of FRAMEWORKS.
    """

    name: str
    summary: str
    source: str
    update: Update
    matrix_update: Update | None = None
    matrices: Literal["hidden", "all"] = "hidden"
    aliases: tuple[str, ...] = ()
    is_momentum_optional: bool = False
    launch: Mapping[str, LaunchName | NotOffered] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if any(state.is_factored for state in self.update.states):
            raise InvalidInput(f"factored state is of matrices; give {self.name!r} a matrix_update with it")
        if self.is_momentum_optional and len(self.update.states) != 1:
            raise InvalidInput(f"momentum that can be left out is the only state of {self.name!r}")

    @property
    def updates(self) -> tuple[Update, ...]:
        return (self.update, self.matrix_update) if self.matrix_update is not None else (self.update,)

    @property
    def follows_moments(self) -> bool:
        """Whether `precision.moments` decides over any of its state."""
        states = (state for update in self.updates for state in update.states)
        return any(not state.element_bytes for state in states)

    def launched_by(self, framework: str) -> LaunchName | NotOffered:
        """What `framework` calls it."""
        unknown = NotOffered(why=f"it is not given for {framework}", source="")
        return self.launch.get(framework, unknown)

    @property
    def collectives(self) -> tuple[UpdateCollective, ...]:
        return self.matrix_update.collectives if self.matrix_update is not None else ()


def _check(name: str, optimizer: Optimizer) -> None:
    """Raises where a plugin's entry is no optimizer, or takes the name of another kind of operator for its update."""
    holding("optimizer", Optimizer)(name, optimizer)
    named("optimizer", name, optimizer.name)
    for operator in update_operators(optimizer):
        if operator.name in operators and operators[operator.name] != operator:
            raise InvalidInput(f"the update of {name!r} is called {operator.name!r}, as another operator is")


def _added(optimizer: Optimizer) -> None:
    if operators.names():  # built-ins are read while the table of operators is made, which has them in its own order
        add_update_operators(optimizer)


def add_update_operators(optimizer: Optimizer) -> None:
    """Puts those of its element-wise operators into the table of operators that are not there yet."""
    for operator in update_operators(optimizer):
        if operator.name not in operators:
            operators.register(operator.name)(operator)


def _dropped(optimizer: Optimizer) -> None:
    shared = {update.operator for other in optimizers.names() for update in optimizers[other].updates}
    for operator in reversed(tuple(update_operators(optimizer))):
        if operator.name not in shared:
            operators.withdraw(operator.name)


def update_operators(optimizer: Optimizer) -> Iterator[Operator]:
    """The element-wise operators of its updates; the bytes that they move are their rows' own."""
    for name, flop in {update.operator: update.flop_per_parameter for update in optimizer.updates}.items():
        forward = Pass(num_reads=0, num_writes=0, flop_per_element=flop)
        yield Operator(name=name, unit=Unit.VECTOR, forward=forward, backward=Pass())


def update_operator_names() -> frozenset[str]:
    """The element-wise operators of all optimizers."""
    return frozenset(update.operator for _, optimizer in optimizers.items() for update in optimizer.updates)


optimizers: Registry[Optimizer] = Registry("optimizer", __name__, check=_check, added=_added, dropped=_dropped)


def optimizer_named(name: str) -> Optimizer:
    """By its name or one of its aliases."""
    if name in optimizers:
        return optimizers[name]
    aliases = {alias: found for _, found in optimizers.items() for alias in found.aliases}
    if name not in aliases:
        raise InvalidInput(f"no optimizer is named {name!r}{did_you_mean(name, optimizers.names())}", "optimizer")
    return aliases[name]
