"""Networks as people write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.network import load_networks, sizes_bytes, with_faults
from dovetail.files.network_formats import algorithms_of, groups_of
from dovetail.hardware.topology import Dimension

LINK = "@50GB/s,500ns"


def kinds(text):
    [network] = load_networks(text)
    return [(part.name, getattr(part, "kind", "graph"), part.num_devices) for part in network.parts]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"ring:8{LINK}", [("x", "bidirectional-ring", 8)]),
        (f"uniring:8{LINK}", [("x", "ring", 8)]),
        (f"ring:8{LINK} x switch:4@25 GB/s, 1us", [("x", "bidirectional-ring", 8), ("y", "switch", 4)]),
        (f"ring:8{LINK}xswitch:4{LINK}", [("x", "bidirectional-ring", 8), ("y", "switch", 4)]),
        (f"ring:8{LINK};mesh:4{LINK}", [("x", "bidirectional-ring", 8), ("y", "mesh", 4)]),
        (f"torus:4x2x3{LINK}", [(n, "bidirectional-ring", c) for n, c in zip("xyz", (4, 2, 3), strict=True)]),
        (f"tp=fully-connected:8{LINK} x dp=fat-tree:4{LINK},oversubscription=2", [
            ("tp", "fully-connected", 8), ("dp", "fat-tree", 4)
        ]),
        (f"fat-tree:32{LINK},leaf=8,spines=4,oversubscription=2", [("x", "graph", 32)]),
        (f"dragonfly:5x4x2{LINK},global=25GB/s,global-latency=1us", [("x", "graph", 40)]),
        ("dgx-h100", None),
    ],
)  # fmt: skip
def test_a_description_is_read(text, parts):
    assert parts is None or kinds(text) == parts


def test_figures_are_those_written():
    [network] = load_networks("switch:4@400Gb/s,2us,oversubscription=4")
    [part] = network.parts
    assert isinstance(part, Dimension)
    assert (part.link.bandwidth_bytes_per_s, part.link.latency_s, part.oversubscription) == (5e10, 2e-6, 4.0)


def test_a_range_of_devices_is_a_network_each():
    assert [n.graph.num_devices for n in load_networks(f"ring:8..64{LINK}")] == [8, 16, 32, 64]
    assert [n.graph.num_devices for n in load_networks(f"ring:8..20{LINK}")] == [8, 16, 20]


def test_sizes_double():
    assert sizes_bytes("64 MiB") == (2.0**26,)
    assert sizes_bytes("1MiB..8MiB") == tuple(2.0**power for power in (20, 21, 22, 23))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read ''"),
        ("nope", "cannot read 'nope' as a network"),
        ("rong:8@50GB/s,1us", "did you mean ring"),
        ("ring:8", "gives no bandwidth and latency"),
        ("ring:8@50GB/s", "gives no latency"),
        ("ring:8@1us", "gives no bandwidth"),
        ("ring:8@1us,2us,50GB/s", "gives its latency twice"),
        ("ring:8@50", "a quantity needs its unit, as in '50 GB/s'; got '50'"),
        ("ring:8@50,1us", "a quantity needs its unit, as in '50 GB/s'; got '50'"),
        ("ring:8@1us,2.5", "a quantity needs its unit, as in '900 GB/s'; got '2.5'"),
        ("ring:8@50GB/s,1", "a quantity needs its unit, as in '1.5 us'; got '1'"),
        ("ring:8@50GB,1us", "'GB' is not a unit of this quantity; write it as in '900 GB/s'"),
        ("ring:0@50GB/s,1us", "devices must be a whole number"),
        ("ring:8@50GB/s,1us,leaf=3", "it has none but"),
        ("fat-tree:8@50GB/s,1us,leaf=3", "leaf=3 must divide the 8 devices"),
        ("switch:8@50GB/s,1us,oversubscription=0.5", "at least 1"),
        ("dragonfly:8@50GB/s,1us", "groups x routers x devices"),
        ("ring:4x4@50GB/s,1us", "one number of devices"),
        ("ring:1000x@50GB/s,1us", "devices must be a whole number"),
        ("switch:100000@50GB/s,1us", "1 to 65,536 devices"),
        ("fully-connected:4096@50GB/s,1us", "at most 2,048"),
        ("a=ring:4@50GB/s,1us;a=ring:4@50GB/s,1us", "names must differ"),
        ("ring:64..8@50GB/s,1us", "a range goes up"),
        ("missing.yaml", "there is no file"),
    ],
)
def test_what_cannot_be_a_network_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        load_networks(text)


@settings(max_examples=100, deadline=None)
@given(st.text("ringswtchxmeo:@/0123456789.,;=- GBus", max_size=40))
@example("ring:9..9@1B/s,1s")
def test_any_text_is_a_network_or_is_refused(text):
    with suppress(DovetailError):
        assert all(network.graph.num_devices >= 1 for network in load_networks(text))


def test_links_may_be_slow_or_broken():
    [network] = load_networks(f"ring:8{LINK}")
    slow = with_faults(network, "2-3=0.5, 4>5=0").graph
    assert slow.bandwidth_bytes_per_s[slow.links_between(2, 3)] == 1.25e10
    assert slow.bandwidth_bytes_per_s[slow.links_between(3, 2)] == 1.25e10
    with pytest.raises(InvalidInput, match="no link joins 4 to 5"):
        slow.links_between(4, 5)
    assert len(slow.links_between(5, 4)) == 1
    for wrong in ("2-3", "2-3=2", "a-b=1", "0-4=0.5"):
        with pytest.raises(InvalidInput):
            with_faults(network, wrong)


GRAPH = """
nodes: [a, b, c]
switches: 1
links:
  - {source: a, target: 3, bandwidth: 50 GB/s, latency: 1 us}
  - {source: b, target: 3, bandwidth: 50 GB/s, latency: 1 us}
  - {source: c, target: 3, bandwidth: 25 GB/s, latency: 1 us}
  - {source: a, target: b, bandwidth: 10 GB/s, latency: 100 ns, oneway: true}
"""


def test_a_file_gives_any_graph(tmp_path):
    file = tmp_path / "net.yaml"
    file.write_text(GRAPH, encoding="utf-8")
    [network] = load_networks(str(file))
    assert (network.graph.num_devices, network.graph.num_vertices) == (3, 4)
    assert len(network.graph.links_between(0, 1)) == 1
    with pytest.raises(InvalidInput):
        network.graph.links_between(1, 0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("target: b", "target: d", "target names no node or switch"),
        ("target: b", "target: 9", "target names no node or switch"),
        ("bandwidth: 10 GB/s", "bandwidth: 10", "needs its unit"),
        ("latency: 100 ns", "delay: 100 ns", "delay"),
        ("[a, b, c]", "[a, b, a]", "must differ"),
        ("[a, b, c]", "0", "names no node|1 to"),
    ],
)
def test_a_wrong_graph_is_refused_with_its_place(tmp_path, old, new, message):
    file = tmp_path / "net.yaml"
    file.write_text(GRAPH.replace(old, new), encoding="utf-8")
    with pytest.raises(InvalidInput, match=message) as raised:
        load_networks(str(file))
    assert "net.yaml" in str(raised.value)


def test_groups_and_algorithms_are_read():
    assert groups_of("0-3;4-7") == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert groups_of("0,2;1,3") == ((0, 2), (1, 3))
    assert groups_of("") == ()
    assert algorithms_of("ring") == (("*", "ring"),)
    assert algorithms_of("x=ring, y=direct") == (("x", "ring"), ("y", "direct"))
    for wrong in ("a", "3-1", "1--2", "0-99999999"):
        with pytest.raises(InvalidInput):
            groups_of(wrong)
