"""Records of long schedules: each is a problem of today, keeps what was best, and says nothing that cannot be."""

from __future__ import annotations

import pytest

from benchmarks.operator_graphs import random_graph
from benchmarks.schedule_records import CHIPS, RANDOM, Record, better, long_run, main, problems, records
from dovetail.opsched.fast import QUICK, list_schedule


def record(makespan_beats: int, bound_beats: int) -> Record:
    return Record(num_operators=9, makespan_beats=makespan_beats, bound_beats=bound_beats, wall_s=1.0, cpu_s=1.0)


def test_the_better_of_two_records_has_the_shorter_schedule_and_the_higher_bound():
    assert better(record(100, 80), record(110, 90)) == record(100, 90)
    assert record(100, 90).gap_frac == pytest.approx(0.1)


def test_recorded_random_graphs_are_between_their_bound_and_a_list_schedule():
    for name, known in records().items():
        if name.startswith(RANDOM):
            problem = random_graph(int(name.removeprefix(RANDOM)))
            found = list_schedule(problem, QUICK)
            assert len(problem) == known.num_operators
            assert found.bound_beats <= known.bound_beats <= known.makespan_beats <= found.makespan_beats


def test_recorded_blocks_are_blocks_and_their_bounds_stand():
    known = {name: known for name, known in records().items() if not name.startswith(RANDOM)}
    blocks = dict(problems([name.rsplit(" on ", 1)[0] for name in known])) if known else {}
    for name, one in known.items():
        found = list_schedule(blocks[name], QUICK)
        assert len(blocks[name]) == one.num_operators
        assert found.bound_beats <= one.makespan_beats
        assert one.bound_beats <= one.makespan_beats <= found.makespan_beats


def test_a_long_run_of_a_small_block_closes():
    [(name, problem)] = problems([f"dlrm head on {CHIPS[1]}"])
    assert name == f"dlrm head on {CHIPS[1]}"
    assert long_run(problem, 120.0).gap_frac <= 0.01  # it ends as soon as the gap is closed


def test_an_unknown_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["no such block"])
    assert "nothing is named no such block" in capsys.readouterr().err
