"""Networks, sizes, groups and faults that cannot be meant: each is refused with a reason and a way out."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.network import load_networks, sizes_bytes, with_faults
from dovetail.files.network_formats import algorithms_of, dimensions_named, groups_of

RING = "ring:8@50GB/s,500ns"
LINK = "bandwidth: 10 GB/s, latency: 1 us"


def graph(tmp_path, nodes, *links, switches=""):
    lines = [f"nodes: {nodes}", *([f"switches: {switches}"] if switches else []), "links:"]
    lines += [f"  - {{{link}, {LINK}}}" for link in links]
    file = tmp_path / "graph.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    [network] = load_networks(str(file))
    return network.graph


def test_nodes_and_switches_may_both_be_numbers(tmp_path):
    found = graph(tmp_path, 2, "source: 0, target: 2", "source: 1, target: 2", switches="1")
    assert (found.num_devices, found.num_vertices) == (2, 3)
    assert len(found.links_between(0, 2)) == len(found.links_between(2, 1)) == 1


@pytest.mark.parametrize(
    ("nodes", "switches", "links", "told"),
    [
        ("1000000000", "", ["source: 0, target: 1"], "1000000000"),
        ("2", "1000000000", ["source: 0, target: 1"], "1000000000"),
        ("0", "", ["source: 0, target: 1"], "1 to 65,536 nodes"),
        ("-2", "", ["source: 0, target: 1"], "nodes must be a number or names; got -2"),
        ("2", "", ["source: 1, target: 1"], "joins 1 to itself"),
        ("2", "", ["source: 0, target: 1", "source: 0, target: 1"], "0 to 1 twice"),
        ("2", "", ["source: 0, target: 1", "source: 1, target: 0"], "twice"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(tmp_path, nodes, switches, links, told):
    with pytest.raises(InvalidInput, match=told) as caught:
        graph(tmp_path, nodes, *links, switches=switches)
    assert str(caught.value).count("graph.yaml") == 1


def test_two_links_one_way_each_are_no_link_given_twice(tmp_path):
    links = ("source: 0, target: 1, one_way: true", "source: 1, target: 0, one_way: true")
    assert len(graph(tmp_path, 2, *links).source) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{RING},foo", "cannot read 'foo'"),
        ("ring:8@", "gives no bandwidth and latency"),
        ("ring:8@50GB/s,,500ns", "nothing between two commas"),
        (f"{RING} x ", "nothing after the last x"),
        (f"{RING} x", "nothing after the last x"),
        ("ring:8@50GB/s,1e300s", "latency is at most"),
        ("ring:8@1e-300B/s,1us", "bandwidth is from"),
        ("ring:8@1e300B/s,1us", "bandwidth is from"),
        ("dragonfly:3x2x2@50GB/s,1us,global=1e-300B/s", "bandwidth is from"),
        ("dgx-h10", "did you mean dgx-h100"),
        ("fat-tree:1000000@50GB/s,1us,leaf=1", "at most 2,048 devices"),
        ("fat-tree:2048@50GB/s,1us,leaf=1,spines=1000000", "2,048 leaves x 1,000,000 spines"),
    ],
)
def test_a_description_that_cannot_be_is_refused(text, told):
    with pytest.raises(InvalidInput, match=told):
        load_networks(text)


def test_a_network_file_of_astra_sim_is_sent_to_the_command_that_takes_it(tmp_path):
    file = tmp_path / "net.yml"
    file.write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="dovetail trace run"):
        load_networks(str(file))


def test_a_graph_without_links_says_so(tmp_path):
    file = tmp_path / "net.yml"
    file.write_text("nodes: 4\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="links is missing"):
        load_networks(str(file))


@pytest.mark.parametrize(
    ("text", "told"),
    [("1GiB..1MiB", "--size"), ("1GiB..1MiB", r"1.0 GiB to 1.0 MiB"), ("1e-300B", "1.0 B"), ("1e300 B", "EiB|PiB")],
)
def test_a_size_that_cannot_be_is_refused(text, told):
    with pytest.raises(InvalidInput, match=told):
        sizes_bytes(text)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (groups_of, ";"),
        (groups_of, " "),
        (groups_of, "0-3;;4-7"),
        (dimensions_named, "x,x"),
        (dimensions_named, "x,,y"),
        (algorithms_of, "x=ring,x=direct"),
        (algorithms_of, "ring,direct"),
        (lambda text: with_faults(load_networks(RING)[0], text), "2-3=0.5,2-3=0.1"),
        (lambda text: with_faults(load_networks(RING)[0], text), "2-3=0.5,3>2=0.1"),
    ],
)
def test_what_is_said_twice_or_not_at_all_is_refused(read, text):
    with pytest.raises(InvalidInput):
        read(text)


def test_what_is_said_once_is_taken():
    assert groups_of("") == ()
    assert groups_of("0-1;2-3") == ((0, 1), (2, 3))
    assert dimensions_named("x, y") == ("x", "y")
    assert dimensions_named("") == ()
