"""What a replay and a golden compare: a moved bit, a renamed key, a command that is missing, another exit code."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from benchmarks.bar import REPOSITORY
from benchmarks.bar_replay import golden_bars, replay_bars
from benchmarks.json_diff import Renames, differences, flattened, hexed, is_sentence, load_renames, unhexed
from benchmarks.replay import COMMANDS, RENAMES, Ran, commands, compared, ran, replayed, table
from tests.golden.cases import Case
from tests.golden.exact import figures, labelled, moved

STEP = 0.1
NEXT = math.nextafter(STEP, 1.0)
ANSWER = {"step_s": STEP, "num_plans": 8, "plan": "tp 8", "time": {"waiting_s": 0.25}, "stages": [{"name": "a"}]}
NONE = Renames()


def of(answer: object, code: int = 0, command: str = "simulate") -> Ran:
    return Ran(code=code, leaves=flattened(answer, command), complaint="a line" if code else "")


def first(base: Ran | None, now: Ran | None, within: float = 0.0, renames: Renames = NONE) -> str:
    found = compared("simulate x", base, now, within=within, renames=renames)
    return found.first if found else ""


def test_equal_answers_do_not_differ():
    assert first(of(ANSWER), of(ANSWER)) == ""


def test_a_number_that_moved_by_one_bit_is_named_by_its_path():
    told = first(of(ANSWER), of({**ANSWER, "step_s": NEXT}))
    assert told.startswith("simulate.step_s: was 0.1, is 0.10000000000000002")


def test_a_tolerance_covers_numbers_and_no_more_than_it_says():
    assert first(of(ANSWER), of({**ANSWER, "step_s": NEXT}), within=1e-12) == ""
    assert "step_s" in first(of(ANSWER), of({**ANSWER, "step_s": STEP * (1 + 1e-11)}), within=1e-12)


def test_a_share_is_compared_beside_one():
    base, now = of({"behind_frac": 1e-9}), of({"behind_frac": 1e-9 + 1e-13})
    assert first(base, now, within=1e-12) == ""
    assert first(of({"wait_s": 1e-9}), of({"wait_s": 1e-9 + 1e-13}), within=1e-12) != ""


@pytest.mark.parametrize(("key", "value"), [("num_plans", 9), ("plan", "tp 4"), ("num_plans", 8.0)])
def test_counts_and_plans_must_be_equal_within_any_tolerance(key, value):
    found = first(of(ANSWER), of({**ANSWER, key: value}), within=1e-12 if value != 8.0 else 0.0)
    assert found.startswith(f"simulate.{key}: was ")


def test_a_key_that_is_gone_and_one_that_is_new_are_told():
    without = {key: value for key, value in ANSWER.items() if key != "step_s"}
    assert first(of(ANSWER), of(without)) == "simulate.step_s: was 0.1, is gone"
    assert first(of(without), of(ANSWER)) == "simulate.step_s: was not there, is 0.1"


def test_a_list_that_lost_its_rows_differs():
    assert "simulate.stages.0.name" in first(of(ANSWER), of({**ANSWER, "stages": []}))


def test_a_renamed_key_is_the_same_only_with_the_rename():
    now = of({**ANSWER, "time": {"blocking_s": 0.25}})
    assert first(of(ANSWER), now) == "simulate.time.waiting_s: was 0.25, is gone"
    for rule in ("waiting_s", "time.waiting_s", "simulate.time.waiting_s"):
        new = ".".join([*rule.split(".")[:-1], "blocking_s"])
        assert first(of(ANSWER), now, renames=Renames(keys={rule: new})) == ""
    assert first(of(ANSWER), now, renames=Renames(keys={"memory.waiting_s": "memory.blocking_s"})) != ""


def test_a_rename_does_not_hide_a_number_that_moved():
    renames = Renames(keys={"waiting_s": "blocking_s"})
    now = of({**ANSWER, "time": {"blocking_s": 0.26}})
    assert first(of(ANSWER), now, renames=renames).startswith("simulate.time.blocking_s: was 0.25, is 0.26")


def test_renames_reach_through_lists_and_may_move_a_key():
    renames = Renames(keys={"parts.stages": "pools.stages", "time.bubble_s": "time.pipeline.bubble_s"})
    assert renames.path("simulate.parts.0.stages.1") == "simulate.pools.0.stages.1"
    assert renames.path("simulate.time.bubble_s") == "simulate.time.pipeline.bubble_s"


def test_two_keys_may_take_each_others_names():
    renames = Renames(keys={"a_s": "b_s", "b_s": "a_s"})
    assert (renames.path("x.a_s"), renames.path("x.b_s")) == ("x.b_s", "x.a_s")


def test_a_renamed_name_is_the_same_only_with_the_rename():
    base, now = of({"framework": "megatron-lm"}), of({"framework": "megatron"})
    assert first(base, now) != ""
    assert first(base, now, renames=Renames(values={"megatron-lm": "megatron"})) == ""
    assert first(base, now, renames=Renames(values={"framework=megatron-lm": "megatron"})) == ""
    assert first(base, now, renames=Renames(values={"family=megatron-lm": "megatron"})) != ""


def test_another_exit_code_is_a_difference_and_says_why():
    assert first(of(ANSWER), of({"error": "x"}, code=2)) == "exit code: was 0, is 2 (no complaint / a line)"


def test_a_command_that_a_side_did_not_run_differs():
    runs = {"simulate x": of(ANSWER)}
    [found] = replayed(["simulate x"], runs, {}, within=0.0, renames=NONE)
    assert (found.command, found.first) == ("simulate x", "today's side did not run it")
    [found] = replayed(["simulate x"], {}, runs, within=0.0, renames=NONE)
    assert found.first == "the base did not run it"


def test_versions_differ_without_counting():
    assert first(of({**ANSWER, "version": "0.1"}), of({**ANSWER, "version": "0.2"})) == ""


def test_sentences_count_unless_left_out():
    base, now = of({"note": "light recompute"}), of({"note": "recompute of norms"})
    assert first(base, now) != ""
    assert compared("x", base, now, within=0.0, renames=NONE, has_sentences=False) is None
    assert not is_sentence("tp-cp-dp-pp")


def test_options_are_renamed_for_todays_side():
    renames = Renames(options={"--themis": "--least-loaded", "--seq": "--sequence-length", "--gone": ""})
    words = ["network", "--themis", "--seq=8", "--gone", "ring"]
    assert renames.words(words) == ["network", "--least-loaded", "--sequence-length=8", "ring"]


def test_a_file_of_renames_with_an_unknown_key_is_refused(tmp_path):
    (tmp_path / "r.json").write_text('{"key": {}}')
    with pytest.raises(ValueError, match="got key"):
        load_renames(tmp_path / "r.json")
    load_renames(RENAMES)


def test_a_table_names_commands_and_counts_them():
    found = replayed(["simulate x"], {"simulate x": of(ANSWER)}, {}, within=0.0, renames=NONE)
    lines = table(found, 3).splitlines()
    assert lines[0] == "dovetail simulate x"
    assert lines[-1] == "3 commands: 2 equal, 1 differ"


def test_floats_are_read_back_to_the_last_bit():
    for value in (STEP, NEXT, 5e-324, 1.7e308, -0.25, 3.0, True, 7, "tp", "0x12", None):
        assert unhexed(hexed(value)) == value
        assert type(unhexed(hexed(value))) is type(value)


def test_zeros_of_other_signs_differ_to_the_last_bit():
    assert differences({"a": 0.0}, {"a": -0.0})


GOLDEN = Case(topic="t", name="n", command="simulate", answer=lambda: ANSWER, labels=("step_s", "time.*"))


def test_a_golden_keeps_what_its_labels_name():
    assert figures(GOLDEN, NONE) == {"simulate.step_s": STEP, "simulate.time.waiting_s": 0.25}


def test_a_golden_notices_one_bit_and_a_case_that_is_not_recorded():
    was = {"step_s": STEP.hex(), "time.waiting_s": (0.25).hex()}
    assert moved(GOLDEN, was, 0.0, NONE) == []
    [line] = moved(GOLDEN, {**was, "step_s": NEXT.hex()}, 0.0, NONE)
    assert line.startswith("simulate.step_s: was 0.10000000000000002, is 0.1")
    assert moved(GOLDEN, {**was, "step_s": NEXT.hex()}, 1e-12, NONE) == []
    assert "not recorded" in moved(GOLDEN, None, 0.0, NONE)[0]


def test_what_is_recorded_of_a_case_is_what_it_is_compared_with():
    told = labelled(GOLDEN, NONE)
    assert told == {"step_s": STEP.hex(), "time.waiting_s": (0.25).hex()}
    assert moved(GOLDEN, json.loads(json.dumps(told)), 0.0, NONE) == []


def test_a_golden_stays_under_a_renamed_key():
    answer = {**ANSWER, "time": {"blocking_s": 0.25}}
    was = {"step_s": STEP.hex(), "time.waiting_s": (0.25).hex()}
    renames = Renames(keys={"time.waiting_s": "time.blocking_s"})
    assert moved(replace(GOLDEN, answer=lambda: answer), was, 0.0, renames) == []


def test_there_are_enough_commands_and_none_twice():
    said = commands(COMMANDS.read_text(encoding="utf-8"))
    assert len(said) >= 120
    assert len(set(said)) == len(said)
    assert all("--json" in one.split() for one in said)


def test_a_side_answers_in_order_and_ends_as_commands_do(tmp_path):
    said = ["op list --json", "op matmul 4096x4096 --chip h200 --json", "network all-reduce --size 1MiB --json"
            " --topology ring:4@50GB/s,500ns --csv links.csv"]  # fmt: skip
    found = ran(said, REPOSITORY / "src", REPOSITORY, tmp_path)
    assert [one.code for one in found.values()] == [0, 2, 0]
    assert "linear" in found[said[0]].leaves.values()
    assert found[said[1]].complaint.startswith("dovetail: ")
    assert any(path.startswith("files.links_csv.0.") for path in found[said[2]].leaves)


RESULT = {"num_commands": 169, "num_equal": 169, "within": 0.0, "base": "683c416", "commit": "abc", "date": "d",
          "machine": "m", "wall_s": {"base": 1.0, "now": 1.0}}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ({}, True),
        ({"num_equal": 168}, False),
        ({"num_commands": 119, "num_equal": 119}, False),
        ({"within": 1e-3}, False),
    ],
)
def test_the_bar_of_a_replay_asks_for_equal_answers_to_enough_commands(change, holds):
    [bar] = replay_bars({**RESULT, **change})
    assert bar.holds is holds


def test_a_replay_that_is_not_recorded_is_not_tried():
    [bar] = replay_bars(None)
    assert bar.holds is None


def test_the_bar_of_goldens_counts_what_is_recorded(tmp_path):
    (tmp_path / "steps.json").write_text(json.dumps({"recorded on": "m", "a": {}, "b": {}}))
    [bar] = golden_bars(tmp_path)
    assert (bar.measured, bar.holds) == ("2 in 1 files", False)
    [bar] = golden_bars()
    assert bar.holds
