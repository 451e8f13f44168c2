from __future__ import annotations

import json

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.phaze_dp import load_instance, load_recorded, shipped_instances


def instance():
    layers = [
        {
            "id": number,
            "activationSize": 4.0,
            "parameterSize": 2.0,
            "isTensorParallelized": False,
            "optimalLatencyFw": 1.0,
            "optimalLatencyBw": 2.0,
            "energy": 0.0,
        }
        for number in (-1, 0, 1)
    ]
    return {
        "maxMemoryPerDevice": 100.0,
        "maxDevices": 4,
        "bandwidth": 10.0,
        "mbsInBatch": 8.0,
        "nodes": {"1": layers},
        "edges": {"1": [{"sourceId": n, "destId": n + 1, "communicationCost": 5.0} for n in (-1, 0)]},
        "activationRecomputation": True,
        "optimizerAlgorithm": "Adam",
        "fixedPP": 2,
        "fixedTMPC": 1,
        "fixedDP": 2,
        "numTransformerLayers": 2,
    }


def written(folder, value, name="x.in.json"):
    file = folder / name
    file.write_text(json.dumps(value), encoding="utf-8")
    return file


def test_alike_layers_become_one_run_and_adam_keeps_a_copy_more(tmp_path):
    found = load_instance(written(tmp_path, instance()))
    [variant] = found.problem.variants
    assert [run.num_layers for run in variant.runs] == [3]
    assert found.problem.weight_copies == 3
    assert found.problem.recompute == "always"
    assert found.expert_ends == (1, 3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"optimizerAlgorithm": "Lion"}, "SGD or Adam; got 'Lion'"),
        ({"fixedPP": 3}, "fixedPP must be from 1 to 2; got 3"),
        ({"edges": {"1": []}}, "must be a chain in order"),
        ({"edges": {}}, "must be a chain in order"),
        ({"nodes": {}}, "table of layers"),
        ({"maxDevices": 0}, "num_devices must be at least 1"),
        ({"bandwidth": 0.0}, "must be positive"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_instance_is_refused_in_one_line(tmp_path, change, said):
    with pytest.raises(InvalidInput, match=said):
        load_instance(written(tmp_path, {**instance(), **change}))


def test_an_instance_without_its_answer_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="there is no file"):
        load_recorded(written(tmp_path, instance()))


def test_instances_ship_with_their_answers():
    files = shipped_instances()
    assert files
    assert all(load_recorded(file).batch_s > 0 for file in files.values())
