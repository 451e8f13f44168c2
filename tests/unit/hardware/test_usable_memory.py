from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.evaluate import evaluate
from dovetail.files.cluster import load_cluster
from dovetail.files.heterogeneous_cluster import load_any_cluster
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import HEADROOM_TO_FIT
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.heterogeneous import pools_of
from dovetail.parallel.plan import Plan
from dovetail.report.figures import part_text
from dovetail.report.memory import usable_phrase
from dovetail.units import GIBI, share_frac
from dovetail.workload.models import models
from dovetail.workload.workload import Workload


@pytest.mark.parametrize(
    ("name", "visible_gib"), [("h200-sxm", 139.8), ("h100-sxm", 79.2), ("h100-pcie", 79.1), ("a100-80gb-sxm", 79.15)]
)
def test_memory_is_what_pytorch_says_it_is(name, visible_gib):
    assert chips[name]().visible_bytes / GIBI == pytest.approx(visible_gib, abs=0.05)


def test_headroom_replaces_the_reserve_of_gpus_and_tpus_alike():
    for name in ("dgx-h100", "tpu-v4-pod"):
        cluster = clusters[name].build(clusters[name].default_devices)
        roomy = cluster.with_headroom(0.1)
        assert roomy.usable_bytes == pytest.approx(0.9 * cluster.chip.visible_bytes)
        assert dict(roomy.chip.sources)["hbm_reserve_frac"] == "the requested headroom"
        assert replace(roomy.chip, hbm_reserve_frac=cluster.chip.hbm_reserve_frac, sources=()) == replace(
            cluster.chip, sources=()
        )


@pytest.mark.parametrize("headroom_frac", [-0.01, 0.91, float("nan")])
def test_a_headroom_that_leaves_nothing_is_refused(headroom_frac):
    with pytest.raises(InvalidInput, match="headroom must be from 0 to 90 %"):
        clusters["dgx-h100"].build(8).with_headroom(headroom_frac)


@pytest.mark.parametrize(("field", "value"), [("hbm_visible_frac", 0.0), ("hbm_visible_frac", 1.1)])
def test_a_chip_that_shows_none_or_more_than_all_of_its_memory_is_refused(field, value):
    with pytest.raises(InvalidInput, match="hbm_visible_frac must be above 0 and at most 1"):
        replace(chips["h100-sxm"](), **{field: value})


@pytest.mark.parametrize("value", [-0.1, 1.0])
def test_a_chip_that_reserves_all_of_its_memory_is_refused(value):
    with pytest.raises(InvalidInput, match=r"hbm_reserve_frac must be from 0 to 0\.9"):
        replace(chips["h100-sxm"](), hbm_reserve_frac=value)


def test_a_cluster_file_says_its_headroom(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: dgx-h100\ndevices: 8\nheadroom: 5 %\n")
    assert load_cluster(str(file)).chip.hbm_reserve_frac == 0.05
    file.write_text("base: dgx-h100\nheadroom: 0%\n")
    assert load_cluster(str(file)).usable_bytes == chips["h100-sxm"]().visible_bytes


def test_parts_without_a_headroom_of_their_own_have_that_of_the_whole(tmp_path):
    file = tmp_path / "parts.yaml"
    parts = "parts: [{name: dgx-h100, devices: 8, headroom: 2%}, {name: dgx-a100, devices: 8}]\n"
    file.write_text(f"{parts}between: {{bandwidth: 25 GB/s, latency: 8 us}}\nheadroom: 10%\n")
    assert [part.chip.hbm_reserve_frac for part in pools_of(load_any_cluster(str(file)))] == [0.02, 0.1]


@pytest.mark.parametrize("written", ["5", "0.05", "'5'", "-5 %", "101 %", "95 %", "lots"])
def test_a_headroom_that_is_no_percentage_is_refused_where_it_stands(tmp_path, written):
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: dgx-h100\ndevices: 8\nheadroom: {written}\n")
    with pytest.raises(InvalidInput, match=r"headroom|a share is a percentage"):
        load_cluster(str(file))


@pytest.mark.parametrize(("text", "frac"), [("5%", 0.05), (" 12.5 % ", 0.125), ("0 %", 0.0), ("100%", 1.0)])
def test_a_share_is_read_from_a_percentage(text, frac):
    assert share_frac(text) == frac


def test_words_name_what_is_usable_and_of_what():
    def usable(cluster: Cluster) -> str:
        made = models["gpt2-345m"]()
        found = evaluate(Workload(model=made, global_batch=64, seq=made.seq), cluster, Plan(data_parallel=8))
        return part_text(usable_phrase(found))

    h100 = clusters["dgx-h100"].build(8)
    assert usable(h100) == "of 80.0 GiB: driver and ECC have 0.8 GiB, 3.2 GiB is kept free for our error in memory"
    asked = usable(h100.with_headroom(0.1))
    assert asked == "of 80.0 GiB: driver and ECC have 0.8 GiB, 7.9 GiB is kept free as requested"
    assert usable(h100.with_headroom(0.0)) == "of 80.0 GiB: driver and ECC have 0.8 GiB, nothing is kept free"
    to_fit = h100.with_headroom(0.06, f"{HEADROOM_TO_FIT} 95 %")
    assert usable(to_fit).endswith("4.8 GiB is kept free so that plans fit with 95 %")
