"""The explorer as a person uses it: plan, turn, pin, open, search, come back."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dovetail.explorer.figures import WORKING
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
    """The step time, once all figures are there."""
    page.wait_for_selector(STEP)
    page.wait_for_selector('[data-key="limit"]')
    expect(page.locator("#busy")).to_be_hidden()
    return shown(page)


def shown(page: Page) -> str:
    """The step time in the page, with plain spaces."""
    return page.inner_text(STEP).replace("\u00a0", " ")


def value(page: Page) -> float:
    """The step time in the page with all its digits."""
    return float(page.get_attribute('[data-key="step"]', "data-value") or 0)


def turn(page: Page, key: str, place: float) -> None:
    """Moves a slider as a hand does: its value, and the event that the browser sends."""
    page.eval_on_selector(
        f"#turn-{key}",
        "(own, place) => { own.value = place; own.dispatchEvent(new Event('input', {bubbles: true})); }",
        place,
    )


def until_other(page: Page, before: float) -> float:
    """The step time, once it is another than `before`."""
    expect(page.locator('[data-key="step"]')).not_to_have_attribute("data-value", f"{before:.9g}")
    return value(page)


def refusal(page: Page) -> str:
    page.wait_for_selector(".refused:not(.hidden)")
    return page.inner_text(".refused")


def test_a_newcomer_sees_plan_time_memory_and_limit_and_opens_every_tab(server: Server, visit: Visitor):
    found = visit(server.url, width=1440)  # llama3-8b on 64 devices
    page = found.page
    assert re.fullmatch(r"[\d.]+ (s|ms)", planned(page))
    expect(page.locator("#result h2")).to_have_text("llama3-8b on 64 x h100-sxm")
    for key in ("step", "memory"):
        expect(page.locator(f'[data-key="{key}"] .interval')).to_contain_text("in nine of ten runs")
    fold = page.evaluate("innerHeight")
    for part in ('[data-key="step"]', '[data-key="memory"]', '[data-key="limit"]', "#result .chips", ".stages"):
        assert page.locator(part).bounding_box()["y"] < fold, f"{part} is below the fold"  # type: ignore[index]
    expect(page.locator("#result .chips")).to_contain_text("DP 64")
    expect(page.locator("#tab .main-svg").first).to_be_visible()
    expect(page.locator("#tab table").last).to_contain_text("loses most by")
    expect(page.locator("#tab .plans .chips").first).to_contain_text("DP 64")
    page.click("#sort-memory")
    expect(page.locator("#tab th[aria-sort=ascending]")).to_contain_text("memory")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save Plans by time and memory as PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    check_tabs(page)
    found.assert_calm()


def check_tabs(page: Page) -> None:
    page.click("#tab-launch")
    expect(page.locator("#launch-text")).to_contain_text("torchrun")
    expect(page.locator("#same-python")).to_contain_text("dovetail.simulate(")
    page.select_option("#framework", "deepspeed")
    expect(page.locator("#launch-text")).to_contain_text("deepspeed")
    page.wait_for_url(re.compile("framework=deepspeed"))
    expect(page.get_by_role("link", name="Download", exact=True)).to_have_attribute("download", re.compile("launch"))
    headings = {"timeline": "Memory over one step", "time": "Time of one step, by stage", "report": "assumes"}
    for tab, heading in headings.items():
        page.click(f"#tab-{tab}")
        expect(page.locator("#tab")).to_contain_text(heading)
        page.wait_for_url(re.compile(f"tab={tab}"))
    page.click("#tab-plans")


def test_degrees_are_set_by_hand_against_the_plan_found_and_what_cannot_be_is_refused(server: Server, visit: Visitor):
    found = visit(f"{server.url}/?{SMALL}")
    page = found.page
    planned(page)
    before = value(page)
    page.select_option("#plan-tp", "2")
    after = until_other(page, before)
    assert after > before
    expect(page.locator('[data-key="step"] .worse')).to_be_visible()
    expect(page.locator(".compared")).to_contain_text("against the plan first found")
    expect(page.locator("#result .chips")).to_contain_text("TP 2")
    expect(page.locator("#plan-dp")).to_have_value("4")
    page.wait_for_url(re.compile("ref="))
    page.select_option("#plan-pp", "2")
    expect(page.locator(".stages li")).to_have_count(2)
    page.select_option("#plan-recompute", "full")
    expect(page.locator("#result .chips")).to_contain_text("Recompute full")
    page.wait_for_timeout(200)  # the address follows the figures
    page.reload()
    planned(page)
    expect(page.locator("#result .chips")).to_contain_text("Recompute full")
    expect(page.locator(".compared")).to_contain_text("against the plan first found")
    page.select_option("#plan-dp", "4")
    expect(page.locator(".stages li")).to_have_count(1)
    page.click("#plan-again")
    expect(page.locator('[data-key="step"]')).to_have_attribute("data-value", f"{before:.9g}")
    found.assert_calm()


def test_sliders_stand_beside_the_figures_and_the_reference_stays_when_it_is_planned_again(
    server: Server, visit: Visitor
):
    found = visit(f"{server.url}/hardware?{SMALL}", width=1440)
    page = found.page
    planned(page)
    before = value(page)
    sliders = page.locator("input[type=range]")
    boxes = [sliders.nth(place).bounding_box() for place in range(sliders.count())]
    assert len(boxes) == 7  # two of HBM, three of the chip, its one network, and the devices
    assert all(box is not None and box["y"] < page.evaluate("innerHeight") for box in boxes)
    check_keys(page, before)
    turn(page, "hbm-bandwidth", -2)
    slow = until_other(page, before)
    expect(page.locator('[data-key="step"] .worse')).to_be_visible()
    expect(page.locator("#turn-hbm-bandwidth-value")).to_contain_text("×0.25")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    box = page.locator('[data-key="step"]').bounding_box()
    assert box is not None
    assert 0 <= box["y"] < page.evaluate("innerHeight"), "the figures scrolled away"
    turn(page, "hbm-capacity", -2)
    expect(page.locator('[data-key="memory"] .note')).to_contain_text("19.0 GiB usable of 20.0 GiB")
    page.wait_for_url(re.compile("x-hbm-capacity=0.25"))
    page.click("#plan-again")
    expect(page.locator("#busy")).to_be_hidden()
    expect(page.locator(".compared")).to_contain_text("against the plan first found")
    expect(page.locator('[data-key="step"] .worse')).to_be_visible()  # than the user's own, not than the new plan there
    assert value(page) > before
    page.click("#reset")
    expect(page.locator("#turn-hbm-bandwidth-value")).not_to_contain_text("×")
    assert slow > before
    found.assert_calm()


def check_keys(page: Page, before: float) -> None:
    page.focus("#turn-peak")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    until_other(page, before)
    page.wait_for_url(re.compile("x-peak="))
    assert float(page.input_value("#turn-peak")) == pytest.approx(-0.6)  # what changed beside it left it there
    assert page.get_attribute("#turn-peak", "aria-describedby") == "turn-peak-value"
    page.click("#reset")
    expect(page.locator('[data-key="step"]')).to_have_attribute("data-value", f"{before:.9g}")
    expect(page.locator("#turn-peak-value")).not_to_contain_text("×")


def test_while_a_large_plan_is_searched_old_figures_say_that_they_are_old_and_cancel_keeps_the_best(
    server: Server, visit: Visitor
):
    found = visit(f"{server.url}/?{SMALL}")
    page = found.page
    planned(page)
    page.goto(f"{server.url}/?{SMALL}")
    planned(page)
    page.select_option("#model", "deepseek-v3")
    expect(page.locator("#busy")).to_be_visible()
    expect(page.locator("#stale")).to_contain_text("these figures are still of gpt2-345m on 8 x h100-sxm")
    expect(page.locator("#answer")).to_have_class(re.compile("stale"))
    expect(page.locator("#tab-stale")).to_contain_text("this is still of gpt2-345m on 8 x h100-sxm")
    expect(page.locator("#tab[inert]")).to_have_count(1)  # a plan of another model is not to be taken
    page.fill("#devices", "2048")
    page.press("#devices", "Tab")
    expect(page.locator("#progress")).to_contain_text("Planning deepseek-v3 on 2,048 x h100-sxm: best so far")
    expect(page.locator("#result h2")).to_have_text("deepseek-v3 on 2,048 x h100-sxm")  # the best so far, not dimmed
    expect(page.locator("#answer")).not_to_have_class(re.compile("stale"))
    page.click("#cancel-plan")
    expect(page.locator("#busy")).to_be_hidden()
    expect(page.locator("#said")).to_contain_text("The search was stopped: this is the best plan so far")
    expect(page.locator("#result .chips")).to_contain_text("EP")
    found.assert_calm()


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
    found.page.wait_for_url(re.compile("model=resnet-50"))
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
    expect(page.locator("#result h2")).to_contain_text("on 16 x h100", timeout=WAIT_MS)
    expect(page.locator(".refused")).to_be_hidden()


def test_named_designs_stand_side_by_side_and_one_is_the_reference(server: Server, visit: Visitor):
    found = visit(f"{server.url}/hardware?{SMALL}", width=1440)
    page = found.page
    planned(page)
    before = value(page)
    for name, place in (("stock", 0.0), ("half the bandwidth", -1.0), ("double the bandwidth", 1.0)):
        if place:
            turn(page, "hbm-bandwidth", place)
            before = until_other(page, before)
        page.fill("#design-name", name)
        expect(page.locator('[data-key="limit"] .note')).not_to_contain_text(WORKING)
        expect(page.locator("#design-name")).to_have_value(name)  # no suggestion is put over it
        page.click("#pin")
        expect(page.locator("#pinned")).to_contain_text(name)
    page.select_option("#reference", label="half the bandwidth")
    expect(page.locator(".compared")).to_contain_text("against half the bandwidth")
    expect(page.locator('[data-key="step"] .better')).to_be_visible()
    page.get_by_role("link", name="Compare").click()
    table = page.locator(".compare table")
    expect(table.locator("thead")).to_contain_text("double the bandwidth")
    heads = [table.locator("thead th").nth(place).bounding_box() for place in range(1, 4)]
    assert all(head is not None and head["width"] > 250 and head["x"] + head["width"] <= 1440 for head in heads)
    assert "%" in table.locator("tr", has_text="Step time").inner_text()
    assert "in nine of ten runs" in table.locator("tr", has_text="Step time").inner_text()
    differing = table.locator("tbody").nth(1).locator("tr")
    expect(differing).to_have_count(2)  # the heading, and HBM bandwidth alone
    expect(page.locator("figure .main-svg").first).to_be_visible()
    page.click("#remove-1")
    expect(table).not_to_contain_text("half the bandwidth")
    page.fill("#name-0", "as sold")
    page.press("#name-0", "Tab")
    expect(table.locator("thead")).to_contain_text("as sold")
    page.reload()
    expect(table.locator("thead")).to_contain_text("as sold")
    found.assert_calm()


def test_an_address_gives_the_same_page_again_and_users_do_not_see_each_others_state(server: Server, visit: Visitor):
    one = visit(f"{server.url}/hardware?{SMALL}")
    planned(one.page)
    before = value(one.page)
    turn(one.page, "hbm-bandwidth", -1)
    turned = until_other(one.page, before)
    one.page.wait_for_url(re.compile("x-hbm-bandwidth=0.5"))
    one.page.click("#pin")
    expect(one.page.locator("#pinned")).to_contain_text("Kept")
    other = visit(one.page.url.partition("&pin=")[0])
    planned(other.page)
    assert value(other.page) == turned
    assert other.page.input_value("#turn-hbm-bandwidth") == "-1"
    assert other.page.inner_text("#pinned") == ""
    other.page.goto(f"{server.url}/hardware?{SMALL}")
    planned(other.page)
    assert value(other.page) == before
    assert other.page.inner_text("#pinned") == ""
    assert other.page.input_value("#turn-hbm-bandwidth") == "0"
    assert value(one.page) == turned
    other.assert_calm()


def test_chip_network_and_accuracy_are_of_the_question_that_the_plan_page_asks(server: Server, visit: Visitor):
    found = visit(f"{server.url}/chip?{SMALL}&baseline=tpu-v6e")
    page = found.page
    expect(page.locator("#floorplan h2")).to_have_text("h100-sxm and tpu-v6e, to one scale")
    expect(page.locator("#floorplan .main-svg").first).to_be_visible()
    expect(page.locator("#result")).to_contain_text("gpt2-345m on 8 x h100-sxm")
    page.select_option("#baseline", "h200-sxm")
    expect(page.locator("#floorplan h2")).to_have_text("h100-sxm and h200-sxm, to one scale")
    page.wait_for_url(re.compile("baseline=h200-sxm"))
    page.get_by_role("link", name="Network").click()
    expect(page.locator("#collective-said")).to_contain_text("all-reduce of 256.0 MiB on 8 devices takes")
    page.select_option("#collective", "all-gather")
    expect(page.locator("#collective-said")).to_contain_text("all-gather of")
    page.fill("#size", "lots")
    page.press("#size", "Tab")
    assert "lots" in refusal(page)
    page.get_by_role("link", name="Accuracy").click()
    expect(page.locator("#sure")).to_contain_text("90 % interval")
    expect(page.locator("figure .js-plotly-plot")).to_have_count(2)
    found.assert_calm()


def press_until_another_opens(page: Page, opened: str) -> None:
    """Presses a dot of the front; again where the press fell into the moment in which the chart was drawn again."""
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
    expect(found.page.locator("figure", has_text="What matters")).to_be_visible()
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
    found.page.get_by_role("link", name="Open it on Plan").click()
    step = planned(found.page)
    assert step
    assert value(found.page) == pytest.approx(float(told.partition("; ")[2].split()[0]), rel=2e-3)  # four digits
    found.assert_calm()


def test_a_search_is_started_watched_cancelled_and_gone_on_with(server: Server, visit: Visitor, store: Path):
    found = visit(f"{server.url}/search?model=gpt2-1.5b&preset=chip&devices=64")
    found.page.click("#start")
    expect(found.page.locator("#status")).to_have_text("Running")
    expect(found.page.locator("#told")).to_contain_text(re.compile("planning|systems|bounding"))
    expect(found.page.locator("#open-point")).to_have_count(0)  # the demo made room
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
    expect(found.page.locator("#result h2")).to_contain_text("my-llama on 8 x h100", timeout=WAIT_MS)
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
    assert found.page.input_value("#model") == "gpt2-345m"
