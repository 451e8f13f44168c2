"""What is said of a collective and would change nothing is refused; what it is of takes it."""

from __future__ import annotations

import pytest

import dovetail
from dovetail.errors import InvalidInput

RING = "ring:4@50GB/s,500ns"
TWO = f"{RING} x switch:4@25GB/s,1us"


def asked(collective="all-reduce", topology=TWO, **more):
    return dovetail.network(collective, size="1MiB", topology=topology, **more)


@pytest.mark.parametrize("option", [{"policy": "lifo"}, {"active": 2}, {"themis": True}], ids=str)
def test_an_order_of_chunks_is_refused_where_there_is_one_chunk(option):
    with pytest.raises(InvalidInput, match="is of several chunks; pass chunks too, or leave it out"):
        asked(**option)
    with pytest.raises(InvalidInput, match="and the closed form is of one; use the events engine"):
        asked(engine="closed", **option)
    assert asked(chunks=4, **option).time_s > 0


@pytest.mark.parametrize("option", [{"chunks": 2}, {"algorithm": "ring"}, {"chunks": 2, "active": 2}], ids=str)
def test_one_message_has_no_chunks_and_no_algorithm(option):
    with pytest.raises(InvalidInput, match="point-to-point is one message; leave it out"):
        asked("point-to-point", **option)


@pytest.mark.parametrize("place", [{"topology": RING}, {"dims": "x"}, {"groups": "0-3;4-7"}], ids=str)
def test_themis_is_refused_where_there_are_no_dimensions_to_choose_from(place):
    with pytest.raises(InvalidInput, match="themis is of several whole dimensions"):
        asked(chunks=4, themis=True, **place)


@pytest.mark.parametrize(
    ("endpoint", "collective", "given", "words"),
    [
        ("ideal", "all-reduce", {"memory": "9GB/s"}, "takes no memory bandwidth; leave it out"),
        ("ideal", "all-reduce", {"sms": 2}, "takes no SMs for all-reduce; leave them out"),
        ("ace", "all-reduce", {"memory": "9GB/s", "sms": 2}, "takes no SMs for all-reduce"),
        ("near-memory", "all-reduce", {"sms": 2}, "takes no SMs for all-reduce"),
        ("copy-engine", "all-gather", {"sms": 2}, "takes no SMs for all-gather"),
    ],
)
def test_an_endpoint_is_not_given_what_it_does_not_take(endpoint, collective, given, words):
    with pytest.raises(InvalidInput, match=words):
        asked(collective, endpoint=endpoint, **given)


@pytest.mark.parametrize(
    ("endpoint", "ways"), [("ace", 'memory "450 GB/s"'), ("sm-ring", 'memory "450 GB/s" or sms 6')]
)
def test_an_endpoint_that_is_given_nothing_is_told_what_it_takes(endpoint, ways):
    with pytest.raises(InvalidInput, match=f"needs what it is given, as in {ways}$"):
        asked(endpoint=endpoint)


def test_an_endpoint_that_takes_nothing_needs_nothing():
    assert asked(endpoint="ideal").time_s == asked().time_s


@pytest.mark.parametrize("endpoint", ["copy-engine", "sm-ring"])
def test_endpoints_that_add_on_sms_take_them(endpoint):
    few_s, many_s = (asked(endpoint=endpoint, sms=sms).time_s for sms in ("1@1GB/s", "2@1GB/s"))
    assert few_s > many_s


@pytest.mark.parametrize("endpoint", ["sm", "dma", "in-switch"])
def test_an_endpoint_of_a_catalogue_cluster_moves_what_its_library_sends(endpoint):
    found = asked(topology="dgx-h100x16", endpoint=endpoint, memory="1.6TB/s").outcome[0]
    chosen = asked(topology="dgx-h100x16").outcome[0]
    assert found.engine == "library"
    assert found.time_s >= chosen.time_s > found.endpoint_s > 0
    starved = asked(topology="dgx-h100x16", endpoint=endpoint, memory="1GB/s").outcome[0]
    assert starved.time_s == starved.endpoint_s > chosen.time_s


def test_switches_that_add_without_a_measurement_are_followed_by_events():
    assert asked(topology="dgx-a100x8", endpoint="in-switch", memory="1TB/s").outcome[0].engine != "library"


def test_a_collective_over_more_nodes_than_were_measured_tells_so():
    inside, outside = asked(topology="dgx-h100x16"), asked(topology="dgx-h100x64")
    assert (inside.record["outside_evidence"], "outside" in str(inside.tables[0])) == ([], False)
    assert outside.record["outside_evidence"] == ["over 8 nodes, measured over 2"]
    assert "outside the evidence: over 8 nodes" in str(outside.tables[0])
    assert asked(topology="dgx-h100x64", engine="events").record["outside_evidence"] == []


def test_a_sweep_tells_that_its_closed_form_is_not_the_library_s():
    sweep = dovetail.network("all-reduce", size="1MiB..4MiB", topology="dgx-h100x64")
    assert {"the closed form is of links alone", "outside the evidence: over 8 nodes, measured over 2"} <= set(
        sweep.tables[0].notes
    )


def test_an_algorithm_is_the_librarys_where_the_network_names_one():
    selected = asked(topology="dgx-h100x32").outcome[0]
    ring, tree = (asked(topology="dgx-h100x32", algorithm=name).outcome[0] for name in ("ring", "Tree"))
    assert {one.engine for one in (selected, ring, tree)} == {"library"}
    assert (ring.algorithm, tree.algorithm) == ("ring", "tree")
    again = asked(topology="dgx-h100x32", algorithm=selected.algorithm).outcome[0]
    assert again.time_s == selected.time_s < ring.time_s


@pytest.mark.parametrize("options", [{"engine": "events"}, {"chunks": 8}, {"groups": "0-15;16-31"}], ids=str)
def test_events_run_an_algorithm_of_theirs_where_an_option_requests_them_and_state_the_chunks(options):
    found = asked(topology="dgx-h100x32", algorithm="ring", **options)
    assert found.outcome[0].engine != "library"
    assert f"events, {options.get('chunks', 1)} chunk" in str(found.tables[0])


@pytest.mark.parametrize(
    ("collective", "algorithm", "words"),
    [
        ("all-reduce", "nvls", "by ring, tree, nvls-tree; got nvls; engine events simulates nvls"),
        ("all-reduce", "nvlink=ring", "by ring, tree, nvls-tree; got nvlink=ring; engine events simulates"),
        ("all-reduce", "ring,nvlink=direct", "by ring, tree, nvls-tree; got ring, nvlink=direct; engine events"),
        ("all-reduce", "rign", r"by ring, tree, nvls-tree; got rign \(algorithm\)"),
        ("all-gather", "tree", r"all-gather over 32 ranks is known by ring; got tree \(algorithm\)"),
        ("all-to-all", "ring", "by p2p; got ring; engine events simulates ring"),
    ],
)
def test_an_algorithm_that_the_library_does_not_have_is_refused_with_those_it_has(collective, algorithm, words):
    with pytest.raises(InvalidInput, match=words):
        asked(collective, topology="dgx-h100x32", algorithm=algorithm)


def test_a_tree_of_large_messages_runs_by_simple_although_the_tuner_takes_another_algorithm():
    found = dovetail.network("all-reduce", size="1 GiB", topology="dgx-h100x32", algorithm="tree").outcome[0]
    assert found.protocol == "Simple"
