"""The explorer as a person uses it: plan, turn, pin, open, search, come back."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import WAIT_MS, Server, Visitor

pytestmark = pytest.mark.slow

SMALL = "model=gpt2-345m&cluster=dgx-h100&devices=8&batch=64"  # planned in a second
STEP = '[data-key="step"] strong'
NUM_PRESSES = 12
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_hidden_layers": 12,
    "num_key_value_heads": 16,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}


def planned(page: Page) -> str:
    """The step time, once there is one and all else is drawn."""
    page.wait_for_selector(STEP)
    page.wait_for_selector("figure .js-plotly-plot .main-svg")
    return shown(page)


def shown(page: Page) -> str:
    """The step time in the page, with plain spaces."""
    return page.inner_text(STEP).replace("\u00a0", " ")


def turn(page: Page, key: str, place: float) -> None:
    """Moves a slider as a hand does: its value, and the event that the browser sends."""
    page.eval_on_selector(
        f"#turn-{key}",
        "(own, place) => { own.value = place; own.dispatchEvent(new Event('input', {bubbles: true})); }",
        place,
    )


def refusal(page: Page) -> str:
    page.wait_for_selector(".refused:not(.hidden)")
    return page.inner_text(".refused")


def test_a_model_is_planned_and_the_report_drawn(server: Server, visit: Visitor):
    found = visit(server.url)  # llama3-8b on 64 devices: what a newcomer sees
    assert re.fullmatch(r"[\d.]+ (s|ms)", planned(found.page))
    expect(found.page.locator("#result")).to_contain_text("llama3-8b on 64 x h100")
    expect(found.page.locator("#result")).to_contain_text("interval")
    assert found.page.locator("figure .main-svg").count() >= 3
    found.page.select_option("#model", "gpt2-345m")
    expect(found.page.locator("#result")).to_contain_text("gpt2-345m on 64 x h100", timeout=WAIT_MS)
    found.assert_calm()


def test_a_slider_moves_the_figures_and_planning_anew_takes_it_in(server: Server, visit: Visitor):
    """By hand and by keys, and devices like any figure; all of it on one page, put back in between."""
    found = visit(f"{server.url}/?{SMALL}")
    before = planned(found.page)
    expect(found.page.locator("#result")).to_contain_text("Best plan")
    check_keys(found.page, before)
    check_devices(found.page, before)
    turn(found.page, "hbm-bandwidth", -2)
    expect(found.page.locator(STEP)).not_to_have_text(before)
    expect(found.page.locator('[data-key="step"] .worse')).to_be_visible()
    expect(found.page.locator("#turn-hbm-bandwidth-value")).to_contain_text("×0.25")
    slow = shown(found.page)
    turn(found.page, "hbm-capacity", -2)
    expect(found.page.locator('[data-key="memory"] .note')).to_contain_text("of 19.0 GiB")
    found.page.wait_for_url(re.compile("x-hbm-capacity=0.25"))
    found.page.click("#plan-anew")
    expect(found.page.locator("#busy")).to_be_empty()
    assert "x-hbm-capacity=0.25" in found.page.url
    found.page.click("#reset")
    expect(found.page.locator("#turn-hbm-bandwidth-value")).not_to_contain_text("×")
    assert slow != before
    found.assert_calm()


def check_devices(page: Page, before: str) -> None:
    turn(page, "devices", float(page.input_value("#turn-devices")) - 1)
    expect(page.locator("#result h2")).to_contain_text("on 4 x h100")
    expect(page.locator("#devices")).to_have_value("4")
    expect(page.locator("#turn-devices-value")).to_contain_text("×0.50")
    expect(page.locator('[data-key="step"] .worse')).to_be_visible()
    expect(page.locator("#result")).to_contain_text("On the hardware that it was planned for: Best plan")
    put_back(page, before)
    expect(page.locator("#result h2")).to_contain_text("on 8 x h100")
    expect(page.locator("#devices")).to_have_value("8")


def check_keys(page: Page, before: str) -> None:
    page.focus("#turn-peak")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    expect(page.locator(STEP)).not_to_have_text(before)
    page.wait_for_url(re.compile("x-peak="))
    assert float(page.input_value("#turn-peak")) == pytest.approx(-0.6)  # what changed beside it left it there
    expect(page.locator('[data-key="limit"] dt')).to_have_text("Limited by")
    assert page.get_attribute("#turn-peak", "aria-describedby") == "turn-peak-value"
    put_back(page, before)
    expect(page.locator("#turn-peak-value")).not_to_contain_text("×")


def put_back(page: Page, before: str) -> None:
    page.click("#reset")
    expect(page.locator(STEP)).to_have_text(re.compile(before.replace(" ", r"\s")))
    assert shown(page) == before


def test_back_undoes_a_choice_and_a_bad_config_is_refused_while_the_page_stays(
    server: Server, visit: Visitor, tmp_path: Path
):
    """Another cluster keeps the number of devices; a refusal is one line."""
    found = visit(f"{server.url}/?{SMALL}")
    before = planned(found.page)
    found.page.select_option("#cluster", "tpu-v4-pod")
    expect(found.page.locator("#result h2")).to_contain_text("on 8 x tpu-v4")
    expect(found.page.locator("#devices")).to_have_value("8")
    found.page.wait_for_url(re.compile("cluster=tpu-v4-pod"))
    found.page.go_back()
    expect(found.page.locator("#result h2")).to_contain_text("on 8 x h100")
    assert planned(found.page) == before
    assert found.page.input_value("#cluster") == "dgx-h100"
    expect(found.page.locator("#seq")).to_be_visible()
    found.page.select_option("#model", "resnet-50")
    expect(found.page.locator("#result h2")).to_contain_text("resnet-50 on 8 x h100")
    expect(found.page.locator("#seq")).to_be_hidden()  # a model without positions is not asked for them
    expect(found.page.locator("#batch")).to_be_visible()
    found.page.go_back()
    expect(found.page.locator("#result h2")).to_contain_text("gpt2-345m on 8 x h100")
    assert planned(found.page) == before
    found.assert_calm()
    check_refusals(found.page, tmp_path / "config.json")


def check_refusals(page: Page, file: Path) -> None:
    before = shown(page)
    file.write_text(json.dumps(LLAMA | {"num_attention_heads": 7}), encoding="utf-8")
    page.set_input_files("#model-file", file)
    told = refusal(page)
    assert "7" in told
    assert "config.json" in told
    assert "\n" not in told.strip()
    assert shown(page) == before
    page.fill("#devices", "seven")
    page.press("#devices", "Tab")
    expect(page.locator(".refused")).to_contain_text("devices is a whole number")
    page.fill("#devices", "16")
    page.press("#devices", "Tab")
    expect(page.locator("#result")).to_contain_text("on 16 x h100", timeout=WAIT_MS)
    expect(page.locator(".refused")).to_be_hidden()


def test_pinned_designs_stand_side_by_side(server: Server, visit: Visitor):
    found = visit(f"{server.url}/?{SMALL}")
    before = planned(found.page)
    found.page.click("#pin")
    expect(found.page.locator("#pinned")).to_contain_text("1 pinned")
    turn(found.page, "hbm-bandwidth", 1)
    expect(found.page.locator(STEP)).not_to_have_text(before)
    after = shown(found.page)
    found.page.click("#pin")
    expect(found.page.locator("#pinned")).to_contain_text("2 pinned")
    found.page.get_by_role("link", name="Compare").click()
    table = found.page.locator(".compare table")
    expect(table).to_contain_text("Design B")
    row = table.locator("tr", has_text="Step time").inner_text()
    assert before in row
    assert after in row
    assert "%" in row
    found.page.click("#remove-1")
    expect(table).not_to_contain_text("Design B")
    found.page.reload()
    expect(table).to_contain_text(before)
    expect(table).not_to_contain_text("Design B")


def test_an_address_gives_the_same_page_again_and_users_do_not_see_each_others_state(server: Server, visit: Visitor):
    one = visit(f"{server.url}/?{SMALL}")
    before = planned(one.page)
    turn(one.page, "hbm-bandwidth", -1)
    expect(one.page.locator(STEP)).not_to_have_text(before)
    one.page.wait_for_url(re.compile("x-hbm-bandwidth=0.5"))
    turned = shown(one.page)
    one.page.click("#pin")
    expect(one.page.locator("#pinned")).to_contain_text("1 pinned")
    other = visit(one.page.url.partition("&pin=")[0])
    assert planned(other.page) == turned
    assert other.page.input_value("#turn-hbm-bandwidth") == "-1"
    assert other.page.input_value("#devices") == "8"
    assert other.page.inner_text("#pinned") == ""
    other.page.goto(f"{server.url}/?{SMALL}")
    assert planned(other.page) == before
    assert other.page.inner_text("#pinned") == ""
    assert other.page.input_value("#turn-hbm-bandwidth") == "0"
    assert shown(one.page) == turned
    other.assert_calm()


def press_until_another_opens(page: Page, opened: str) -> None:
    """Presses a dot of the front; again where the press fell into the moment in which the chart was drawn anew."""
    heading = page.locator("#open-point h2")
    for _ in range(NUM_PRESSES):
        dot = page.locator(".scatterlayer .points path").nth(5)
        dot.click(force=True)  # where several lie one over the other, the one on top
        with suppress(AssertionError):
            expect(heading).not_to_contain_text(opened, timeout=5_000)
            return
    raise AssertionError(f"no press of a dot opened another point than {heading.inner_text()}")


def test_a_point_of_a_studys_front_is_opened_and_turned(server: Server, visit: Visitor):
    found = visit(f"{server.url}/study")
    first = found.page.wait_for_selector("#open-point h2")
    assert first is not None
    assert first.inner_text().startswith("System 1 of ")
    [place] = found.page.select_option("#point", index=3)  # of a large front, some points are listed
    chosen = f"System {int(place) + 1} of "
    expect(found.page.locator("#open-point h2")).to_contain_text(chosen)
    found.page.wait_for_url(re.compile(rf"point={place}\b"))
    press_until_another_opens(found.page, chosen)
    pressed = found.page.inner_text("#open-point h2")
    found.page.wait_for_url(re.compile(rf"point=(?!{place}\b)"))
    found.page.reload()
    expect(found.page.locator("#open-point h2")).to_have_text(pressed)
    told = found.page.locator("#open-point tr", has_text="plan for gpt2-345m").inner_text()
    found.page.get_by_role("link", name="Turn this system's hardware").click()
    step = planned(found.page)
    expected_s, shown_s = (float(words.split()[0]) for words in (told.partition("; ")[2], step))
    scale = 1e-3 if step.endswith("ms") else 1.0
    assert shown_s * scale == pytest.approx(expected_s, rel=2e-3)  # four digits are shown of one, three of the other
    found.assert_calm()


def test_a_search_is_started_watched_cancelled_and_gone_on_with(server: Server, visit: Visitor, store: Path):
    found = visit(f"{server.url}/search?model=gpt2-1.5b&preset=chip&devices=64")
    found.page.click("#start")
    expect(found.page.locator("#status")).to_have_text("Running")
    expect(found.page.locator("#told")).to_contain_text(re.compile("planning|systems|bounding"))
    assert "search=" in found.page.url
    watcher = visit(found.page.url)
    expect(watcher.page.locator("#status")).to_have_text("Running")
    number_of_children = len(children(server.process.pid))
    found.page.click("#cancel")
    expect(found.page.locator("#status")).to_have_text("Cancelled")
    expect(watcher.page.locator("#status")).to_have_text("Cancelled")
    expect(found.page.locator("#start")).to_have_text("Resume")
    end_s = time.monotonic() + WAIT_MS / 1000
    while len(children(server.process.pid)) >= number_of_children and time.monotonic() < end_s:
        time.sleep(0.1)
    assert len(children(server.process.pid)) < number_of_children, "the search's process is still there"
    found.page.click("#start")
    expect(found.page.locator("#status")).to_have_text("Running")
    found.page.click("#cancel")
    expect(found.page.locator("#status")).to_have_text("Cancelled")
    found.assert_calm()


def test_the_search_form_keeps_what_is_typed_and_starts_what_it_says(server: Server, visit: Visitor):
    found = visit(f"{server.url}/search?model=bert-large&preset=chip")
    page = found.page
    page.fill("#area", "600")
    page.click("#start")
    assert "600" in refusal(page)
    expect(page.locator("#status")).to_have_text("Nothing is running")
    expect(page.locator("#area")).to_have_value("600")
    page.fill("#devices", "16")
    page.fill("#area", "600 mm2")
    page.fill("#power", "280 W")
    page.click("#start")
    expect(page.locator("#status")).to_have_text("Running")
    expect(page.locator(".refused")).to_be_hidden()
    page.locator("#batch").press_sequentially("12")
    page.click("#cancel")
    expect(page.locator("#status")).to_have_text("Cancelled")
    for name, text in (("devices", "16"), ("area", "600 mm2"), ("power", "280 W"), ("batch", "12")):
        expect(page.locator(f"#{name}")).to_have_value(text)
    assert "area=600+mm2" in page.url
    assert "power=280+W" in page.url
    found.assert_calm()


def children(pid: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


def test_a_search_ends_with_an_answer_that_opens_on_the_plan_page(server: Server, visit: Visitor):
    found = visit(
        f"{server.url}/search?kind=front&model=gpt2-345m&preset=cores&devices=16&batch=16&axes=throughput,area"
    )
    found.page.click("#start")  # all of it is in the store: nothing is scored again
    expect(found.page.locator("#status")).to_have_text("Done", timeout=WAIT_MS)
    expect(found.page.locator("#open-point h2")).to_contain_text("System 1 of ")
    found.page.goto(f"{server.url}/search?kind=plan&{SMALL}")
    found.page.click("#start")
    expect(found.page.locator("#status")).to_have_text("Done", timeout=WAIT_MS)
    found.page.get_by_role("link", name="Open gpt2-345m on the plan page").click()
    assert planned(found.page)
    found.assert_calm()


def test_a_config_is_uploaded_planned_and_carried_by_the_address(server: Server, visit: Visitor, tmp_path: Path):
    file = tmp_path / "my-llama.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    found = visit(f"{server.url}/?{SMALL}")
    planned(found.page)
    found.page.set_input_files("#model-file", file)
    expect(found.page.locator("#result")).to_contain_text("my-llama on 8 x h100", timeout=WAIT_MS)
    found.page.wait_for_url(re.compile("model-text="))
    again = visit(found.page.url)
    planned(again.page)
    expect(again.page.locator("#result")).to_contain_text("my-llama on 8 x h100")
    again.assert_calm()


def test_what_cannot_be_in_an_address_is_said_and_nothing_breaks(server: Server, visit: Visitor):
    found = visit(f"{server.url}/search")  # a page without a plan, to leave for each
    for query, words in (
        ("model=no-such-model", "no-such-model"),
        ("plan=%%%", "cut short or changed"),
        ("devices=-3", "devices is a whole number"),
        ("model=../../etc/passwd", "catalogue"),
        ("x-hbm-bandwidth=99", "times its own"),
        ("design=nothing", "a design is a chip"),
        ("model=gpt2-345m&cluster=dgx-h100&dtype=fp64", "'dtype'"),
    ):
        found.page.goto(f"{server.url}/?{query}")
        assert words in refusal(found.page), query
    found.page.goto(f"{server.url}/?model=gpt2-345m&cluster=dgx-h100&devices=0")
    assert "devices is a whole number" in refusal(found.page)
    expect(found.page.locator("#result h2")).to_have_text("gpt2-345m on dgx-h100")  # what was right in it stays
    assert found.page.input_value("#model") == "gpt2-345m"
