"""The decisions of a plan as fields: each can be taken by hand, and the figures answer."""

from __future__ import annotations

from typing import Any

from dovetail.explorer.answers import prepared
from dovetail.explorer.elements import box, choice_field, options_html, words
from dovetail.explorer.live import Live
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.step.pipelines import pipelines
from dovetail.workload.transformer import Transformer

MOST_TENSOR, MOST_MICRO = 64, 64
# Options of the command line, with their labels: so `--tp 8` and the field TP are one thing.
LABELS = {
    "tp": "TP",
    "pp": "PP",
    "dp": "DP",
    "cp": "CP",
    "ep": "EP",
    "vpp": "VPP",
    "zero": "ZeRO",
    "microbatch": "Microbatch",
    "recompute": "Recompute",
    "schedule": "Schedule",
}


class Degrees:
    """A field for each decision, with what can be chosen for the plan on the page."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._fields: dict[str, Any] = {}
        words("The plan by hand", "h2")
        with box("degrees"):
            for option, label in LABELS.items():
                self._fields[option] = choice_field(f"plan-{option}", label, {}, "", self._edit(option))
        words("Copies (DP) fill the devices; set DP, and PP takes up the rest.", "p", "note")

    def show(self) -> None:
        """What the plan on the page has decided."""
        live = self._live
        if not live.state.plan or live.job is None:
            return
        own = prepared(live.state)
        for option, (values, chosen) in choices(own.plan, own.job.cluster.num_devices, own.job).items():
            content = options_html({"": [(value, value) for value in values]}, chosen)
            field = self._fields[option]
            field.content = content
            field.parent_slot.parent.set_visibility(len(values) > 1)

    def _edit(self, option: str) -> Any:
        async def edit(value: str) -> None:
            await self._live.edit(option, value)
            self.show()

        return edit


def choices(plan: Plan, num_devices: int, job: Any) -> dict[str, tuple[list[str], str]]:
    """What each decision may be, and what it is: counts that divide the devices, the experts or a copy's batch."""
    architecture = job.workload.model.architecture
    experts = architecture.experts.num_experts if isinstance(architecture, Transformer) and architecture.experts else 1
    num_layers = sum(block.repeat for block in job.workload.training_graph().blocks if block.is_layer)
    per_copy = max(1, job.workload.global_batch // plan.data_parallel)
    divisors = _divisors(num_devices)
    counts = {
        "tp": ([n for n in divisors if n <= MOST_TENSOR], plan.tensor_parallel),
        "pp": ([n for n in divisors if n <= num_layers], plan.pipeline_parallel),
        "dp": (divisors, plan.data_parallel),
        "cp": ([n for n in divisors if n <= MOST_TENSOR], plan.context_parallel),
        "ep": ([n for n in _divisors(experts) if num_devices % n == 0], plan.expert_parallel),
        "vpp": (_divisors(max(1, num_layers // plan.pipeline_parallel)), plan.interleave),
        "zero": ([0, 1, 2, 3], plan.zero_stage),
        "microbatch": ([n for n in _divisors(per_copy) if n <= MOST_MICRO], plan.microbatch),
    }
    found = {name: ([str(n) for n in sorted({*every, own})], str(own)) for name, (every, own) in counts.items()}
    if plan.pipeline_parallel == 1:
        found["vpp"] = ["1"], "1"
    own_policy = plan.recompute[0] if len(set(plan.recompute)) == 1 and not plan.recompute_layers else "by stage"
    policies = [*RECOMPUTE_POLICIES, *(() if own_policy in RECOMPUTE_POLICIES else (own_policy,))]
    schedules = [name for name in pipelines.names() if name != "interleaved"] if plan.pipeline_parallel > 1 else []
    return found | {"recompute": (policies, own_policy), "schedule": (schedules or [plan.schedule], plan.schedule)}


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
