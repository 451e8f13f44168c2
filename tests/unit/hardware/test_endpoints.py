"""Kinds of endpoint: what each takes of a device follows from its resource vector, and engines have a price."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.comm.endpoint import use_of_phases
from dovetail.comm.torus import Phase, Work
from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.hardware.endpoints import (
    MEMORY_FRAC,
    RING_ADDING,
    SM_DRIVEN,
    SM_HELD_FRAC,
    Engine,
    Taken,
    endpoint_coded,
    endpoint_names,
    endpoints,
)
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.step.one_device.contention import BLOCK_BYTES_PER_S, OccupiedResources, beside, block_bytes_per_s
from dovetail.units import GIGA
from dovetail.workload.graph import Phase as OpPhase
from dovetail.workload.models import models
from dovetail.workload.operators import UNIT, Unit
from dovetail.workload.workload import Workload


def sent_once(work: Work) -> Phase:
    """A phase of very many ranks, in which a payload is sent once."""
    return Phase(side=0, work=work, sent_frac=1.0, compute_slowdown_frac=1.0, num_steps=1)


ADDING = (sent_once(Work.REDUCE_SCATTER), sent_once(Work.ALL_GATHER))
MOVING = (sent_once(Work.ALL_TO_ALL),)


@pytest.mark.parametrize("name", endpoints.names())
@pytest.mark.parametrize(("kind", "phases"), [("adding", ADDING), ("moving", MOVING)])
def test_a_kind_takes_in_steps_what_it_takes_of_a_very_large_ring(name, kind, phases):
    use, taken = use_of_phases(endpoints[name], phases), getattr(endpoints[name], f"{kind}_taken")
    assert taken.core_bytes == pytest.approx(use.sm_bytes / use.link_bytes)
    assert taken.memory_bytes == pytest.approx(use.memory_bytes / use.link_bytes)


def test_sms_cost_what_was_measured_and_others_their_share_of_cores_and_memory():
    sm, dma, ace = (endpoints[name] for name in ("sm", "dma", "ace"))
    assert (sm.adding_slowdown_frac, sm.moving_held_frac) == (SM_HELD_FRAC, SM_HELD_FRAC)
    assert dma.adding_slowdown_frac == pytest.approx(SM_HELD_FRAC * (0.95 * 2 / 3 + 0.05 * 3.5 / 2.5))
    assert dma.moving_held_frac == ace.moving_held_frac == pytest.approx(SM_HELD_FRAC * 0.05)
    assert ace.adding_slowdown_frac == pytest.approx(SM_HELD_FRAC * 0.05 / 2.5)


def test_the_share_of_memory_is_what_the_contention_model_says_of_a_layer():
    shares = []
    for name, num_ranks, batch in (("llama3-8b", 1, 2), ("llama3-70b", 8, 1)):
        workload = Workload(model=models[name](), global_batch=batch, seq=4096)
        plan = Plan(tensor_parallel=num_ranks, sequence_parallel=num_ranks > 1)
        spans = shard(workload.training_graph(), plan).held(0)
        ops = next(block.ops for _, block in spans if block.is_layer)
        ops = ops.where(np.isin(UNIT[ops.kind], (Unit.TENSOR, Unit.VECTOR)) & (ops.phase != OpPhase.UPDATE))
        traffic = 16 * BLOCK_BYTES_PER_S
        both = OccupiedResources(
            num_units=16,
            hbm_bytes_per_s=traffic,
            sram_bytes_per_s=block_bytes_per_s(16),
            has_shared_memory=True,
        )
        found = [beside(ops, chips["h100-sxm"](), held) for held in (both, OccupiedResources(hbm_bytes_per_s=traffic))]
        whole, memory = (one.overlappable_s.sum() / one.alone_s.sum() - 1 for one in found)
        shares.append(memory / whole)
    assert np.mean(shares) == pytest.approx(MEMORY_FRAC, abs=0.01)


def test_codes_are_for_good_and_begin_at_one():
    assert endpoint_names()[:7] == ("sm", "dma", "ace", "ici", "in-switch", "near-memory", "ideal")
    assert [endpoint_coded(code).name for code in (1.0, 2.0, 3.0)] == ["sm", "dma", "ace"]
    codes = [kind.code for _, kind in endpoints.items()]
    assert len(set(codes)) == len(codes)
    assert all(endpoints[name].name == name for name in endpoints.names())


def test_an_engine_serves_so_much_of_the_links():
    engine = endpoints["ace"].engine
    assert [engine.num_for(rate * GIGA) for rate in (1, 300, 301, 900)] == [1, 1, 2, 3]


def test_a_chip_has_sms_run_its_collectives_unless_it_says_otherwise():
    chip = chips["h100-sxm"]()
    assert chip.endpoint == SM_DRIVEN
    assert replace(chip, endpoint="ace").endpoint_kind is endpoints["ace"]
    assert replace(chip, endpoint="copy-engine") == replace(chip, endpoint="dma")
    with pytest.raises(InvalidInput, match=r"no endpoint is named .acme.; did you mean ace"):
        replace(chip, endpoint="acme")


def test_nothing_is_taken_below_nothing():
    with pytest.raises(InvalidInput, match="must not be negative"):
        replace(RING_ADDING, core_bytes=-1.0)
    with pytest.raises(InvalidInput, match="serves some of the links"):
        Engine(link_bytes_per_s=0.0)
    assert Taken(core_bytes=0.0, memory_bytes=0.0).compute_slowdown_frac(RING_ADDING) == 0.0
