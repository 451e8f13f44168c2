"""`dovetail measure` without a GPU, and a run that is killed amid its rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from dovetail.measuring.row_files import RowFile
from tests.e2e.conftest import ROOT, environment
from tests.e2e.test_bad_input import check_refused

KILLED = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from dovetail.measuring import session
from dovetail.measuring.tables import MeasuredTable, one_by_one

def one(gpu, key):
    time.sleep(0.02)
    return ("5.5",)

table = MeasuredTable(group="bmm", file="bmm.csv", columns=("b", "m", "time_us"), num_keys=2,
                      rows=lambda gpu: [("8", str(m)) for m in range(120)], measure=one_by_one(one))
session.chosen_tables = lambda only: [table]
session.machine_of = lambda gpu: {"gpu": "none"}
print(session.measured(SimpleNamespace(), Path(sys.argv[1]))[0].num_kept)
"""


def test_without_a_gpu_measure_says_so_in_a_line_and_exits_2(dovetail):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    check_refused(dovetail("measure"), "measuring needs a GPU")
    check_refused(dovetail("measure", "step", "config.json"), "measuring needs a GPU")


def test_a_killed_run_leaves_whole_rows_and_the_next_goes_on(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path / "out")]
    file = tmp_path / "out" / "bmm.csv"
    running = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
    end_s = time.monotonic() + 60
    while not (file.exists() and file.read_bytes().count(b"\n") > 4) and time.monotonic() < end_s:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    num_kept = len(RowFile(file=file, columns=("b", "m", "time_us"), num_keys=2).opened())
    assert 3 < num_kept < 120
    again = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert again.stdout == f"{num_kept}\n"
    assert file.read_bytes().count(b"\n") == 121
