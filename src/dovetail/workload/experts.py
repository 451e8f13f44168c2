"""Mixtures of experts: rows are routed to a few of many feed-forward layers, and beside them a shared one may run."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput, require_positive
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis
from dovetail.workload.layers import SHARED_TOKENS, TOKENS, Sample, activate, feed_forward, whole
from dovetail.workload.routing import ExpertChoice
from dovetail.workload.rows import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of a feed-forward layer; how evenly rows are spread over them is `Routing`'s."""

    num_experts: int
    num_experts_per_token: int
    width: int
    num_groups: int = 1  # that experts form, of which a token chooses some first
    num_groups_per_token: int = 1
    shared_width: int = 0  # an always-on expert beside the chosen ones
    router_bias: bool = False  # a score correction per expert
    shared_gate: bool = False  # the shared expert's output is scaled by a learnt gate
    has_bias: bool = False  # on the router's product and both of every expert

    def __post_init__(self) -> None:
        require_positive(self, "num_experts", "num_experts_per_token", "width")
        if self.shared_width < 0:
            raise InvalidInput(f"shared_width must not be negative; got {self.shared_width}", "shared_width")
        if self.shared_gate and not self.shared_width:
            raise InvalidInput("shared_gate needs a shared expert; give shared_width or remove it", "shared_gate")
        if self.num_experts_per_token > self.num_experts:
            few, many = self.num_experts_per_token, self.num_experts
            raise InvalidInput(
                f"num_experts_per_token={few} must not exceed num_experts={many}", "num_experts_per_token"
            )
        self._check_groups()

    def _check_groups(self) -> None:
        require_positive(self, "num_groups", "num_groups_per_token")
        groups, chosen = self.num_groups, self.num_groups_per_token
        if self.num_experts % groups:
            raise InvalidInput(f"num_groups={groups} must divide num_experts={self.num_experts}", "num_groups")
        if chosen > groups:
            raise InvalidInput(
                f"num_groups_per_token={chosen} must not exceed num_groups={groups}", "num_groups_per_token"
            )
        if chosen * self.num_experts // groups < self.num_experts_per_token:
            message = f"{chosen} of {groups} groups hold {chosen * self.num_experts // groups} experts"
            raise InvalidInput(
                f"{message}, fewer than num_experts_per_token={self.num_experts_per_token}", "num_groups_per_token"
            )

    @property
    def choice(self) -> ExpertChoice:
        """How a token chooses among them."""
        return ExpertChoice(
            num_experts=self.num_experts,
            num_experts_per_token=self.num_experts_per_token,
            num_groups=self.num_groups,
            num_groups_per_token=self.num_groups_per_token,
        )


def mixture(build: BlockBuilder, sample: Sample, x: int, hidden: int, experts: Experts, activation: str) -> int:
    """Route, dispatch, expert feed-forward, combine; returns rows as they were before routing."""
    rows = sample.shared_tokens
    routed_rows: Extent = (rows[0] * experts.num_experts_per_token, SHARED_TOKENS)
    gate = build.linear(
        x,
        rows,
        whole(hidden),
        whole(experts.num_experts),
        name="router_gate",
        bias=experts.router_bias or experts.has_bias,
    )
    choice = build.vector("router", (gate,), rows, whole(experts.num_experts))
    y = build.vector("permute", (x, choice), routed_rows, whole(hidden))
    copies = experts.num_experts_per_token
    arrived: Extent = (routed_rows[0], SHARED_TOKENS | Axis.ROUTED)
    y = build.collective("dispatch", y, arrived, whole(hidden), num_copies=copies)
    gathered: Extent = (routed_rows[0], TOKENS | Axis.ROUTED)
    y = build.collective("expert_gather", y, gathered, whole(hidden))
    group: Extent = (experts.num_experts, Axis.EXPERT)
    group_rows: Extent = (-(-routed_rows[0] // experts.num_experts), Axis.EXPERT_DATA | Axis.ROUTED)
    num_up = 2 if activation.endswith("_mul") else 1
    cols: Extent = (experts.width, Axis.EXPERT_TENSOR)
    up_cols: Extent = (num_up * experts.width, Axis.EXPERT_TENSOR)
    y = build.expert_linear(y, group, group_rows, whole(hidden), up_cols, name="expert_up", bias=experts.has_bias)
    y = activate(build, sample, y, (group[0] * group_rows[0], group[1] | group_rows[1]), cols, activation, "expert")
    y = build.expert_linear(y, group, group_rows, cols, whole(hidden), name="expert_down", bias=experts.has_bias)
    if experts.has_bias and build.kernels.adds_expert_bias:
        y = build.vector("expert_bias", (y,), group_rows, whole(hidden), groups=group)
    y = build.collective("expert_reduce", y, gathered, whole(hidden))
    y = build.collective("combine", y, routed_rows, whole(hidden), num_copies=copies)
    return build.vector("unpermute", (y, choice), rows, whole(hidden))


def add_shared_expert(
    build: BlockBuilder, sample: Sample, x: int, mixed: int, hidden: int, experts: Experts, activation: str
) -> int:
    """The always-on expert beside the chosen ones: an ordinary feed-forward in a tensor-parallel region of its own."""
    width, rows = whole(hidden), sample.shared_tokens
    opened = build.collective("gather", x, sample.tokens, width, name="gather_shared")
    y = feed_forward(build, sample, opened, hidden, experts.shared_width, activation, has_bias=False, name="shared")
    y = build.collective("reduce", y, sample.tokens, width, name="reduce_shared")
    if experts.shared_gate:
        gate = build.linear(x, rows, width, whole(1), name="shared_gate")
        y = build.vector("mul", (y, gate), rows, width, name="shared_scale")
    return build.vector("add", (mixed, y), rows, width, name="add_shared")
