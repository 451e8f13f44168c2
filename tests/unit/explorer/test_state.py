"""A page's state is its address: every state comes back as it was, and no address does harm."""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64encode
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest

from dovetail.errors import DovetailError, InvalidInput
from dovetail.evaluate import Outcome
from dovetail.explorer.answers import (
    found_for_state,
    job_of_state,
    launch_of_state,
    prepared,
    result_of,
    unchanged,
)
from dovetail.explorer.designs import design_cluster, design_word
from dovetail.explorer.figures import LIMIT, cards_html, measures_of
from dovetail.explorer.packed import packed, unpacked
from dovetail.explorer.search_request import (
    FRONT,
    SearchRequest,
    check_can_start,
    search_query,
    search_request,
    search_request_of_form,
)
from dovetail.explorer.state import (
    DEVICES,
    FIRST,
    MAX_PINS,
    Session,
    State,
    Upload,
    query_of,
    session_of,
    states_of,
    understood,
)
from dovetail.explorer.uploads import checked_upload
from dovetail.explorer.views import edited_shown, reference_measures, shown
from dovetail.files.plan_text import plan_text
from dovetail.files.uploaded import LIMIT_BYTES, upload_name
from dovetail.hardware.catalog import chips
from dovetail.hardware.heterogeneous import chips_of
from dovetail.parallel.plan import Plan
from dovetail.search.codesign.systems import system_of

SMALL = State(
    model="gpt2-345m", cluster="dgx-h100", devices=8, batch=64, plan=plan_text(Plan(data_parallel=8, microbatch=4))
)
CONFIG = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_attention_heads": 8,
    "num_hidden_layers": 4, "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 512,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip


def again(query: str) -> tuple[State, tuple[State, ...]]:
    return states_of(parse_qsl(query))


@pytest.mark.parametrize(
    "state",
    [
        FIRST,
        SMALL,
        SMALL.with_factor("hbm-bandwidth", 1.25),
        State(
            model_file=Upload(name="a<b>.json", text='{"x": "é"}'), cluster="trn2", devices=16, seq=2048, compute="fp16"
        ),
        State(model="gpt2-345m", design="tpuv4-like~torus~1~2~3", devices=4),
    ],
)
def test_an_address_gives_its_state_again(state):
    assert again(query_of(state)) == (state, ())
    assert again(query_of(state, (SMALL, state))) == (state, (SMALL, state))


def test_an_empty_address_is_where_a_newcomer_begins():
    assert again("") == (FIRST, ())


@pytest.mark.parametrize(
    "query",
    [
        "devices=0",
        "devices=1e9",
        "batch=" + "9" * 20,
        "plan=!!!",
        "plan=" + packed("x")[:-2],
        "x-hbm-bandwidth=nan",
        "x-hbm-bandwidth=5",
        "model-text=abc&model-name=x.json",
        f"model-text={packed('{}')}&model-name=x.exe",
        "&".join(["pin=model%3Dllama3-8b"] * (MAX_PINS + 1)),
    ],
)
def test_an_address_that_cannot_be_is_refused_in_one_line(query):
    with pytest.raises(InvalidInput) as error:
        again(query)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("query", ["dtype=fp64", "Devices=8", "search=1", "pin=model%3Dgpt2-345m%26dtype%3Dfp64"])
def test_a_word_that_means_nothing_is_refused_and_not_left_out(query):
    with pytest.raises(InvalidInput, match="is called"):
        again(f"model=gpt2-345m&{query}")


def test_what_is_right_in_a_wrong_address_is_kept():
    wrong = query_of(SMALL).replace("devices=8", "devices=0") + "&dtype=fp64&x-hbm-bandwidth=99&x-peak=2"
    kept = replace(SMALL, devices=0, factors={"peak": 2.0})
    assert understood(parse_qsl(wrong)) == kept
    assert understood(parse_qsl("model-name=x.json&model-text=abc&cluster=trn2")) == State(cluster="trn2")
    text = query_of(State(model_file=Upload(name="x.json", text="{}"), cluster="trn2"))
    assert understood(parse_qsl(f"{text}&devices=no")).model_file == Upload(name="x.json", text="{}")


def test_devices_are_turned_as_figures_are_and_put_back():
    turned = SMALL.with_factor(DEVICES, 0.5)
    assert again(query_of(turned)) == (turned, ())
    assert prepared(turned).job.cluster.num_devices == 4
    assert job_of_state(turned).cluster.num_devices == 8
    assert prepared(unchanged(turned)).job.cluster.num_devices == 8
    now, before = shown(turned).measures, reference_measures(SMALL)
    assert now == measures_of(result_of(prepared(turned), turned, has_changes=False))
    assert 'class="moved worse">+' in cards_html(now, before)
    with pytest.raises(InvalidInput, match="no whole number"):
        prepared(SMALL.with_factor(DEVICES, 0.3))


def test_what_limits_is_worked_out_where_it_is_wanted():
    assert [one.key for one in shown(SMALL).measures] == ["step", "memory", "rate", "mfu", "energy"]
    assert [one.key for one in shown(SMALL, has_limit=True).measures][2] == LIMIT


def test_a_session_comes_back_from_its_address_with_its_named_reference():
    kept = SMALL.named("  half the\nmemory ")
    assert kept.name == "half the memory"
    session = Session(state=SMALL, reference=(kept,), pins=(kept, SMALL.named("b")))
    assert session_of(parse_qsl(session.query)) == session
    assert kept.key == SMALL.key
    with pytest.raises(InvalidInput, match="one reference"):
        session_of(parse_qsl(f"{session.query}&ref=model%3Dgpt2-345m"))
    with pytest.raises(InvalidInput, match="'tab'"):
        session_of(parse_qsl(f"{session.query}&tab=plans"))
    assert session_of(parse_qsl(f"{session.query}&tab=plans"), ("tab",)) == session


@pytest.mark.parametrize(
    ("option", "words", "field", "value"),
    [
        ("tp", "2", "tensor_parallel", 2),
        ("pp", "2", "pipeline_parallel", 2),
        ("dp", "2", "pipeline_parallel", 4),
        ("zero", "3", "zero_stage", 3),
        ("microbatch", "2", "microbatch", 2),
        ("recompute", "full", "recompute", ("full",)),
    ],
)
def test_a_decision_is_taken_by_hand_and_copies_fill_the_devices(option, words, field, value):
    changed, told = edited_shown(SMALL, option, words)
    assert told == shown(changed)
    plan = prepared(changed).plan
    assert getattr(plan, field) == value
    assert plan.num_devices == 8


@pytest.mark.parametrize(("option", "words"), [("tp", "3"), ("ep", "2"), ("dp", "3"), ("microbatch", "7"), ("pp", "x")])
def test_a_decision_that_cannot_be_is_refused_in_one_line(option, words):
    with pytest.raises(DovetailError) as error:
        edited_shown(SMALL, option, words)
    assert "\n" not in str(error.value)


def test_a_plan_is_shown_as_chips_and_stages():
    _, told = edited_shown(SMALL, "pp", "2")
    assert {(chip.label, chip.value) for chip in told.chips} >= {("TP", "1"), ("PP", "2"), ("DP", "4")}
    assert [stage.layers for stage in told.stages] == ["12 layers", "12 layers"]
    assert "4 copies" in told.copies
    assert told.fits


def test_a_plan_that_does_not_fit_says_what_would():
    told = shown(SMALL.with_factor("hbm-capacity", 0.25).with_factor("hbm-bandwidth", 2.0), has_limit=True)
    tight = shown(replace(SMALL, model="llama3-8b", batch=64).with_factor("hbm-capacity", 0.25), has_limit=True)
    assert told.fits
    assert not tight.fits
    assert [one.key for one in tight.measures] == ["step", "memory"]
    wide = shown(replace(SMALL, model="llama3-8b", batch=64).with_factor("hbm-capacity", 0.8), has_limit=True)
    assert ([one.fits for one in tight.remedies], [one.fits for one in wide.remedies]) == ([False] * 3, [True] * 3)
    for told, factor in ((tight, 0.25), (wide, 0.8)):
        one = told.remedies[0]
        again = replace(SMALL, model="llama3-8b", batch=64, plan=one.plan).with_factor("hbm-capacity", factor)
        assert shown(again).fits == one.fits
        assert "_" not in one.label  # the words of chips, not of files


def test_the_launch_text_of_a_plan_is_what_the_command_prints():
    found = launch_of_state(SMALL, "megatron-lm")
    assert "--micro-batch-size 4" in found.text
    assert found.suffix == "sh"


def test_a_search_that_cannot_be_is_refused_before_it_is_started():
    asked = SearchRequest(model="bert-large", devices=16)
    form = {"devices": "32", "batch": "", "area": " 600 mm2 ", "power": "280 W", "kind": "plan"}
    read = search_request_of_form(asked, form)
    assert read == replace(asked, devices=32, batch=0, area="600 mm2", power="280 W")
    check_can_start(read)
    for words in ({"area": "600"}, {"power": "lots"}, {"devices": "seven"}):
        with pytest.raises(InvalidInput):
            check_can_start(search_request_of_form(asked, words))
    with pytest.raises(InvalidInput, match="is called"):
        search_request([("kind", FRONT), ("colour", "red")])


def test_text_in_an_address_cannot_blow_up():
    bomb = zlib.compress(b"x" * (64 * LIMIT_BYTES), 9)
    with pytest.raises(InvalidInput, match="at most"):
        unpacked(urlsafe_b64encode(bomb).decode().rstrip("="))
    assert unpacked(packed("ünïcode" * 100)) == "ünïcode" * 100


def test_names_of_files_lose_their_folders_and_are_shown_in_one_line():
    assert upload_name("../../etc/shadow.json") == "shadow.json"
    assert upload_name("C:\\secret\\a.yaml") == "a.yaml"
    assert "\n" not in upload_name("a\nb.yaml")
    with pytest.raises(InvalidInput):
        upload_name("/etc/passwd")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/hostname", "model.yaml", "./config.json", "C:\\x.json", "no-such"]
)
@pytest.mark.parametrize("part", ["model", "cluster"])
def test_no_word_of_the_browser_is_ever_taken_for_a_file(tmp_path, monkeypatch, part, name):
    monkeypatch.chdir(tmp_path)
    for file in ("model.yaml", "config.json", "no-such"):
        (tmp_path / file).write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"catalogue|no cluster is named"):
        job_of_state(State(**{part: name}))


@pytest.mark.parametrize(
    "text",
    [
        "base: ../secret.yaml",
        "base: secret.yaml\nname: x",
        "model: secret.yaml",
        "chip: /etc/hostname\ntopology: []",
        "base: secret",
    ],
)
@pytest.mark.parametrize("kind", ["model", "cluster"])
def test_an_upload_opens_no_other_file(tmp_path, monkeypatch, kind, text):
    monkeypatch.chdir(tmp_path)
    for file in ("secret.yaml", "secret"):
        (tmp_path / file).write_text("name: TOP-SECRET\n", encoding="utf-8")
    with pytest.raises(DovetailError) as error:
        checked_upload(kind, text.encode(), "mine.yaml")
    assert "TOP-SECRET" not in str(error.value)
    assert "\n" not in str(error.value)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (BOMB.encode(), "bomb.yaml", "at most"),
        (b"[" * 10_000, "deep.json", "deep"),
        (b"x: !!python/object/apply:os.system ['true']", "tag.yaml", "tags"),
        (b"x" * (LIMIT_BYTES + 1), "large.yaml", "at most"),
        (b"\xff\xfe\x00", "utf16.json", "UTF-8"),
        (b"[]", "nothing.json", "keys with values"),
        (json.dumps(CONFIG | {"num_attention_heads": 7}).encode(), "config.json", "num_attention_heads=7 must divide"),
    ],
)
def test_a_bad_upload_is_refused_in_one_line_as_the_command_line_refuses_it(data, name, words):
    with pytest.raises(DovetailError, match=words) as error:
        checked_upload("model", data, name)
    assert "\n" not in str(error.value)


def test_an_upload_goes_into_the_state_and_is_planned():
    sent = checked_upload("model", json.dumps(CONFIG).encode(), "config.json")
    state = State(
        model_file=Upload(name=sent["name"], text=unpacked(sent["text"])), cluster="dgx-h100", devices=8, batch=64
    )
    assert job_of_state(state).workload.model.name == "config"  # not the folder that the server runs in
    with pytest.raises(InvalidInput):
        checked_upload("chip", b"{}", "x.json")


def test_turning_hardware_keeps_the_plan_and_moves_the_figures():
    own = prepared(SMALL)
    before = result_of(own, SMALL, has_changes=False)
    slow = result_of(own, SMALL.with_factor("hbm-bandwidth", 0.5), has_changes=False)
    assert isinstance(before, Outcome)
    assert isinstance(slow, Outcome)
    assert slow.step.step_s > before.step.step_s
    assert slow.plan == before.plan
    assert unchanged(SMALL.with_factor("hbm-bandwidth", 0.5)) == SMALL


def test_more_devices_get_more_copies_of_the_same_plan():
    found = prepared(State(model="gpt2-345m", cluster="dgx-h100", devices=16, batch=64, plan=SMALL.plan))
    assert found.plan.data_parallel == 16
    assert found.plan.microbatch == 4


def test_the_plan_that_is_found_is_for_the_hardware_as_it_was_turned():
    state = State(model="gpt2-345m", cluster="dgx-h100", devices=8, batch=64)
    plain, starved = found_for_state(state), found_for_state(state.with_factor("hbm-capacity", 0.25))
    assert plain.plan
    assert starved.plan
    need = result_of(prepared(state.with_plan(starved.plan)), state, has_changes=False).memory.need_bytes
    assert need <= 0.25 * chips_of(job_of_state(state).cluster)[0].hbm.capacity_bytes


def test_a_design_comes_back_as_the_chip_that_it_stands_for():
    base = chips["tpuv4-like"]()
    system = system_of(base, 64) | {"num_tensor": 4.0, "hbm_stacks": 6.0}
    cluster = design_cluster(design_word("tpuv4-like", "torus", system))
    assert cluster.num_devices == 64
    assert cluster.chip.tensor.num_units == 4
    assert cluster.chip.die.num_hbm_stacks == 6
    assert design_cluster(design_word("tpuv4-like", "torus", system), 16).num_devices == 16


@pytest.mark.parametrize(
    "word", ["x", "tpuv4-like~torus~1~2", "../a~torus" + "~1" * 13, "tpuv4-like~torus" + "~nan" * 13]
)
def test_a_word_that_is_no_design_is_refused(word):
    with pytest.raises(DovetailError):
        design_cluster(word)


def test_what_a_search_is_asked_comes_back_from_its_address():
    asked = SearchRequest(
        kind=FRONT, model="gpt2-345m", preset="chip", devices=64, axes=("throughput", "area"), area="600 mm2"
    )
    assert search_request(parse_qsl(search_query(asked))) == asked
    assert search_request([]) == SearchRequest()


@pytest.mark.parametrize(
    "query",
    ["kind=rm", "model=../x", "preset=x", "base=/etc/hostname", "network=x", "kind=front&axes=area", "metric=x"],
)
def test_a_search_for_nothing_there_is_is_refused(query):
    with pytest.raises(InvalidInput):
        search_request(parse_qsl(query))


def test_a_long_name_of_a_file_is_cut_before_its_suffix():
    assert upload_name("long-" * 40 + "config.JSON").endswith("-long-.JSON")
    assert len(upload_name("long-" * 40 + "config.json")) == 80
    with pytest.raises(InvalidInput, match="ends in"):
        upload_name("long-" * 40)
