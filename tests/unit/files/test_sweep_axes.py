"""Axes of sweeps as they are typed, and keys of specs by their paths."""

import pytest

from dovetail.api.jobs import JobRequest, job_of
from dovetail.errors import InvalidInput
from dovetail.files.spec_changes import change_of, known_paths
from dovetail.files.sweep_axes import axes_of, axis_of
from dovetail.units import GIBI, TERA


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("plan.tp=1,2,4", (1, 2, 4)),
        ("plan.tp=1..4", (1, 2, 3, 4)),
        ("plan.tp=1..16*2", (1, 2, 4, 8, 16)),
        ("cluster.devices=64..256+64", (64, 128, 192, 256)),
        ("chip.hbm.bandwidth=2TB/s..8TB/s:4", ("2 TB/s", "4 TB/s", "6 TB/s", "8 TB/s")),
        ("chip.hbm.bandwidth=2TB/s..8TB/s", ("2 TB/s", "4 TB/s", "8 TB/s")),
        ("seq=2048,4096..16384*2", (2048, 4096, 8192, 16384)),
        ("plan=tp=8,pp=4;tp=4,pp=8", ("tp=8,pp=4", "tp=4,pp=8")),
        ("plan.recompute=none,full", ("none", "full")),
        ("plan.sp=true,false", (True, False)),
    ],
)
def test_values_and_ranges_are_read(text, values):
    assert axis_of(text).values == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan.tp", "an axis is KEY=VALUES, as in plan.tp=1,2,4"),
        ("plan.tq=1", "no decision of a plan is named 'tq'"),
        ("chip.hbm.bandwith=1TB/s", "no key of a spec is named 'chip.hbm.bandwith'; did you mean chip.hbm.bandwidth"),
        ("plan.tp=8..1", "a range goes upwards; got '8..1'"),
        ("plan.tp=1..8*1", "after * comes a factor above 1"),
        ("chip.hbm.bandwidth=2TB/s..8GB/s:3", "both ends of a range have the same unit; got TB/s and GB/s"),
        ("plan.tp=1,,2", "a value is missing between commas"),
        ("seq=1..100000", "an axis has at most 1,000 values"),
        ("plan.tp=1..8:x", "after : comes a number"),
    ],
)
def test_what_cannot_be_read_is_refused_at_the_option(text, message):
    with pytest.raises(InvalidInput) as caught:
        axis_of(text)
    assert caught.value.message.startswith(message)
    assert caught.value.where.startswith("--over")


def test_one_key_by_two_names_and_too_many_rows_are_refused():
    with pytest.raises(InvalidInput, match=r"plan.tensor_parallel and plan.tp are one key, varied twice"):
        axes_of(("plan.tp=1,2", "plan.tensor_parallel=4"))
    with pytest.raises(InvalidInput, match=r"at most 10,000 rows; 101 x 100 = 10,100"):
        axes_of(("seq=1..101", "global_batch=1..100"))


def test_every_path_that_is_offered_is_one_that_can_be_changed():
    assert all(change_of(path, None).key == path for path in known_paths())
    assert {"plan.tensor_parallel", "chip.hbm.bandwidth", "chip.tensor.rates.bf16", "workload.precision.optimizer"} <= {
        *known_paths()
    }


def changed(**keys):
    changes = tuple(change_of(key.replace("__", "."), value) for key, value in keys.items())
    return job_of(JobRequest(model="llama3-8b", cluster="h100x64", plan="zero3", changes=changes))


def test_keys_of_chip_links_workload_and_plan_change_what_they_name():
    assert changed(chip__hbm__bandwidth="4 TB/s").cluster.chip.hbm.bandwidth_bytes_per_s == 4 * TERA
    assert changed(cluster__chip__hbm__capacity="40 GiB").cluster.chip.hbm.capacity_bytes == 40 * GIBI
    assert changed(chip="h200-sxm").cluster.chip.name == "h200-sxm"
    link = changed(cluster__nvlink__bandwidth="100 GB/s").cluster.topology.dimensions[0].link
    assert link.bandwidth_bytes_per_s == 1e11
    assert changed(workload__precision__optimizer="sgd").workload.precision.optimizer == "sgd"
    assert changed(workload__attention="unfused").workload.attention == "unfused"
    assert (changed(plan__tp=4).plan.tensor_parallel, changed(plan__tp=4).plan.data_parallel) == (4, 16)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("cluster.nvlnk.bandwidth", "1 GB/s", "no key of dgx-h100 is named 'cluster.nvlnk.bandwidth'; did you mean"),
        ("chip.hbm.bandwidth", 4, "a quantity needs its unit"),
        ("workload.precision.optimizer", "adamm", "no optimizer is named 'adamm'; did you mean adam"),
        ("chip.hbm.bandwidth", "4 TB", "'TB' is not a unit of this quantity"),
    ],
)
def test_a_value_that_is_none_of_its_key_is_refused_by_the_key(key, value, message):
    with pytest.raises(InvalidInput) as caught:
        job_of(JobRequest(model="llama3-8b", cluster="h100x64", plan="zero3", changes=(change_of(key, value),)))
    assert caught.value.message.startswith(message)
    assert caught.value.where == key
