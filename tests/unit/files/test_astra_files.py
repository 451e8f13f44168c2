"""ASTRA-sim's own files with odd values: each is refused with its key, its value and the file."""

from __future__ import annotations

import json

import pytest

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.astra import load_network, load_system, parse_network
from dovetail.files.traces import load_groups

NETWORK = {"topology": "Ring", "npus_count": "8", "bandwidth": "50", "latency": "500"}
SYSTEM = {"local-mem-bw": 50, "all-reduce-implementation": ["ring"], "preferred-dataset-splits": 2}
DIMS = parse_network("topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n")


def network_file(tmp_path, **changed):
    file = tmp_path / "network.yml"
    lines = [f"{key}: [ {value} ]" for key, value in (NETWORK | changed).items()]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("latency", ".inf"),
        ("latency", ".nan"),
        ("latency", "1e300"),
        ("latency", "true"),
        ("bandwidth", ".inf"),
        ("bandwidth", ".nan"),
        ("bandwidth", "1.0e-320"),
        ("bandwidth", "1" + "0" * 400),
        ("bandwidth", "null"),
        ("npus_count", "2.5"),
        ("npus_count", "true"),
        ("npus_count", "1" + "0" * 30),
        ("npus_count", "two"),
    ],
)
def test_an_odd_number_of_a_network_is_refused_with_its_key_and_file(tmp_path, key, value):
    with pytest.raises(InvalidInput, match=key) as caught:
        load_network(network_file(tmp_path, **{key: value}))
    assert "network.yml" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("text", "told"), [("null", "nothing"), ("[1, 2]", "a list of 2"), ("3", "3"), ("true", "true")]
)
def test_a_file_that_is_no_table_is_told_in_words_that_are_not_pythons(tmp_path, text, told):
    file = tmp_path / "odd.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"a system file is a table; got {told} "):
        load_system(DIMS, file, is_congestion_aware=False)
    with pytest.raises(InvalidInput, match=f"a network file is a table; got {told} "):
        load_network(file)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("local-mem-bw", float("nan"), "local-mem-bw"),
        ("local-mem-bw", float("inf"), "local-mem-bw"),
        ("local-mem-bw", 1e-320, "local-mem-bw"),
        ("local-mem-bw", True, "local-mem-bw"),
        ("local-mem-bw", "fast", "local-mem-bw"),
        ("endpoint-delay", 10**400, "endpoint-delay"),
        ("endpoint-delay", 1.5, "endpoint-delay"),
        ("endpoint-delay", -1, "endpoint-delay"),
        ("preferred-dataset-splits", None, "preferred-dataset-splits .*got nothing"),
        ("preferred-dataset-splits", 4.5, "preferred-dataset-splits .*got 4.5"),
        ("preferred-dataset-splits", True, "preferred-dataset-splits"),
        ("preferred-dataset-splits", 0, "preferred-dataset-splits"),
        ("preferred-dataset-splits", 10**12, "preferred-dataset-splits"),
        ("active-chunks-per-dimension", 0, "active-chunks-per-dimension"),
        ("all-reduce-implementation", "ring", r'all-reduce-implementation .*\["ring"\]'),
        ("all-reduce-implementation", ["rign"], "all-reduce-implementation"),
        ("all-reduce-implementation", ["ring", "ring"], "all-reduce-implementation"),
        ("scheduling-policy", "fifo", "scheduling-policy"),
    ],
)
def test_an_odd_value_of_a_system_is_refused_with_its_key_and_file(tmp_path, key, value, told):
    file = tmp_path / "system.json"
    file.write_text(json.dumps(SYSTEM | {key: value}), encoding="utf-8")
    with pytest.raises(DovetailError, match=told) as caught:
        load_system(DIMS, file, is_congestion_aware=False)
    assert "system.json" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_whole_number_written_with_a_point_is_taken(tmp_path):
    file = tmp_path / "system.json"
    file.write_text(json.dumps(SYSTEM | {"endpoint-delay": 10.0}), encoding="utf-8")
    assert load_system(DIMS, file, is_congestion_aware=False).endpoint_ticks == 10


def test_a_number_of_thousands_of_digits_is_refused(tmp_path):
    file = tmp_path / "it.json"
    file.write_text('{"local-mem-bw": ' + "9" * 5000 + "}", encoding="utf-8")
    with pytest.raises(InvalidInput, match="digits"):
        load_system(DIMS, file, is_congestion_aware=False)
    file.write_text('{"a": [0, ' + "9" * 5000 + "]}", encoding="utf-8")
    with pytest.raises(InvalidInput, match="JSON"):
        load_groups(file)
    with pytest.raises(InvalidInput, match="digits") as caught:
        load_network(network_file(tmp_path, npus_count="9" * 5000))
    assert "set_int_max_str_digits" not in str(caught.value)
