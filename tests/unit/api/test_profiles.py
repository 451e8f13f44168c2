"""A profile goes before predictions, is named in the answer, and is refused for another chip; or is compared."""

from __future__ import annotations

from pathlib import Path

import pytest

import dovetail as dv
from dovetail.errors import InvalidInput
from dovetail.files.profiled_cluster import with_profile
from dovetail.files.profiles.profile import load_profile
from dovetail.hardware.altered import altered
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from tests.traces_of_profilers import kernel, op, trace

EXAMPLE = Path(__file__).parents[3] / "examples" / "llama-2-layers-h200.json.gz"
SPEC = {
    "workload": {"model": "llama3-8b", "global_batch": 8, "seq": 2048},
    "cluster": {"name": "dgx-h200", "devices": 8},
    "plan": {"zero_stage": 3},
}


@pytest.fixture(scope="module")
def measured():
    return dv.simulate(SPEC, profile=EXAMPLE)


def test_what_was_measured_is_part_of_the_answer(measured):
    said = measured.record["profile"]
    assert said["sources"] == [EXAMPLE.name]
    assert 0 < said["num_measured"] < said["num_operators"]
    rest_s = sum(one["total_s"] for one in said["not_measured"])
    assert said["measured_s"] + rest_s == pytest.approx(said["compute_s"])
    assert any(EXAMPLE.name in sentence for sentence in measured.record["assumptions"])
    assert any(table.title == "Measured times" for table in measured.tables)
    assert measured.step_s != dv.simulate(SPEC).step_s


def test_without_a_profile_nothing_is_said_of_one():
    plain = dv.simulate(SPEC)
    assert "profile" not in plain.record
    assert not any("measured" in table.title.lower() for table in plain.tables)


def test_of_a_chip_with_measured_times_only_the_network_is_asked_about(measured):
    assert measured.elasticities
    assert not {"tensor FLOP/s", "HBM bandwidth", "power limit"} & set(measured.elasticities)


def test_a_spec_may_name_its_profile(measured):
    assert dv.simulate({**SPEC, "profile": str(EXAMPLE)}).step_s == measured.step_s
    named = {"file": str(EXAMPLE), "chip": "h200-sxm"}
    assert dv.simulate({**SPEC, "profile": named}).step_s == measured.step_s


def test_a_profile_of_another_chip_is_refused():
    other = {**SPEC, "cluster": {"name": "dgx-h100", "devices": 8}}
    with pytest.raises(InvalidInput, match="is of h200-sxm, and the cluster has h100-sxm"):
        dv.simulate(other, profile=EXAMPLE)


def test_a_profile_that_names_no_chip_is_refused_until_somebody_does(tmp_path):
    file = tmp_path / "trace.json"
    file.write_text(trace(op("aten::mm", 0, 5, 1, [8, 8], [8, 8]), kernel("gemm", 5, 1), device=""))
    with pytest.raises(InvalidInput, match=r"names no device; set profile: \{file"):
        dv.simulate(SPEC, profile=file)
    dv.simulate(SPEC, profile={"file": str(file), "chip": "h200-sxm"})


@pytest.mark.parametrize(("given", "told"), [({"chip": "h200-sxm"}, "file"), ({"files": "x"}, "files"), (7, "profile")])
def test_a_profile_said_wrongly_is_refused(given, told):
    with pytest.raises(InvalidInput, match=told):
        dv.simulate({**SPEC, "profile": given})


def test_a_chip_with_a_figure_changed_was_not_measured():
    cluster = with_profile(clusters["dgx-h200"].build(8), load_profile(EXAMPLE))
    assert isinstance(cluster, Cluster)
    assert cluster.chip.measured
    assert not altered(cluster, {"hbm-bandwidth": 1.1}, "bf16").chip.measured
    assert altered(cluster, {"link-nvlink": 1.1}, "bf16").chip.measured


def test_a_profile_is_compared_operator_by_operator():
    answer = dv.validate(profile=EXAMPLE)
    [said] = answer.record["profiles"]
    assert answer.fits
    assert (said["chip"], said["device"]) == ("h200-sxm", "NVIDIA H200")
    left_s = sum(one["total_s"] for one in said["left_out"])
    assert said["measured_s"] + left_s == pytest.approx(said["busy_s"])
    products = [row for row in said["rows"] if row["kind"] == "linear"]
    assert len(products) == 15
    # matrix products of a real step, none of them in what the chip was fitted on: within a twentieth
    assert max(abs(row["error_frac"]) for row in products) < 0.05
    assert len(answer.page.sections) > len(answer.tables) - 2


def test_several_profiles_are_a_set_each():
    assert len(dv.validate(profile=[EXAMPLE, EXAMPLE]).record["sets"]) == 2


def test_a_trace_of_an_unknown_device_asks_for_its_chip(tmp_path):
    file = tmp_path / "trace.json"
    file.write_text(trace(op("aten::mm", 0, 5, 1, [512, 512], [512, 512]), kernel("gemm", 5, 1), device="Dev 9"))
    with pytest.raises(InvalidInput, match=r"Dev 9', which is not in the catalogue; pass chip NAME"):
        dv.validate(profile=file)
    assert dv.validate(profile=file, chip="h100-sxm").record["profiles"][0]["chip"] == "h100-sxm"


def test_what_was_compared_can_be_read_back(tmp_path):
    first = dv.validate(profile=EXAMPLE)
    first.to_json(tmp_path / "results.json")
    again = dv.validate(tmp_path / "results.json")
    assert again.record["profiles"] == first.record["profiles"]
    assert again.record["sets"] == first.record["sets"]
