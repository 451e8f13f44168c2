"""A store on a full disk, or where one may not write or read, keeps what it has and says so."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dovetail.search.algorithms import Scored
from dovetail.store import opened
from tests.e2e.conftest import ROOT, environment
from tests.e2e.kept_rows import FIGURES, INPUTS, kept_in

KEEP_ON = """
import sys
from pathlib import Path
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import opened
try:
    with opened(Path(sys.argv[1])) as store:
        study = store.study("mine", {})
        for number in range(100_000):
            study.keep([Scored(point=(number, place), loss=1.0, plan="p" * 50) for place in range(20)])
except InvalidInput as error:
    print(error)
"""


def _ran(code: str, *arguments: object, **how: object) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, encoding="utf-8", timeout=600, check=False, **how,
    )  # type: ignore[call-overload]  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return str(ran.stdout)


def _rows_told(said: str, *words: str) -> int:
    """How many rows a line says are kept."""
    assert said.count("\n") == 1
    for word in (*words, "run the same command again to go on"):
        assert word in said
    return int(said.partition(" rows of this study are kept")[0].rpartition("the ")[2].replace(",", ""))


def test_a_file_that_may_grow_no_more_keeps_what_it_has(tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # noqa: E731
    told = _rows_told(_ran(KEEP_ON, tmp_path / "a.db", preexec_fn=limit), "cannot be written or read (IOERR", "ulimit")
    with opened(tmp_path / "a.db") as store:
        [study] = store.studies()
        assert len(store.at(study.key).known()) == told > 0


def test_a_full_disk_keeps_what_it_has(tmp_path):
    """On a real file system of 400 kB."""
    enter = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=400k none {tmp_path}"
    if not shutil.which("unshare") or subprocess.run([*enter, mount], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody mount a file system of their own")
    code, count = tmp_path.with_name("keep.py"), tmp_path.with_name("count.py")
    code.write_text(KEEP_ON, encoding="utf-8")
    counted = 'print(len(store.study("mine", {}).known()))\n'
    count.write_text(KEEP_ON.partition("        study =")[0] + f"        {counted}except ZeroDivisionError: pass\n")
    script = f"{mount} && {sys.executable} {code} {tmp_path}/a.db && {sys.executable} {count} {tmp_path}/a.db"
    ran = subprocess.run([*enter, script], env=environment(), capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    said, num_rows = ran.stdout.splitlines(keepends=True)
    assert _rows_told(said, "there is no room left to write to", "make room") == int(num_rows) > 0


AS_ANOTHER = """
import os, sys
from pathlib import Path
from dovetail.errors import InvalidInput
from dovetail.search.algorithms import Scored
from dovetail.store import opened, reading
if os.getuid() == 0:
    os.setuid(65534)  # permissions do not bind root
try:
    with {use}(Path(sys.argv[1])) as store:
        print(sum(study.num_rows for study in store.studies()))
except InvalidInput as error:
    print(error)
"""


@pytest.fixture
def locked():
    """A folder that may be read and not written to, with a store in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept_in(folder / "a.db")
        (folder / "a.db").chmod(0o444)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_store_in_a_read_only_folder_is_looked_at_and_not_written_to(locked):
    assert _ran(AS_ANOTHER.format(use="reading"), locked / "a.db") == "2\n"
    for name in ("a.db", "new.db"):
        said = _ran(AS_ANOTHER.format(use="opened"), locked / name)
        assert "cannot be written: it or its folder is read-only, or another user owns it; allow writing" in said
    assert [file.name for file in locked.iterdir()] == ["a.db"]


def test_a_store_that_may_not_be_read_is_told(locked):
    (locked / "a.db").chmod(0)
    for use in ("opened", "reading"):
        assert "cannot be read: permission denied" in _ran(AS_ANOTHER.format(use=use), locked / "a.db")


def test_rows_still_beside_a_store_that_cannot_be_written_to_are_not_passed_over(locked):
    locked.chmod(0o755)
    (locked / "a.db").chmod(0o644)
    with opened(locked / "a.db") as store:
        store.study("mine", INPUTS, FIGURES).keep([Scored(point=(0, 0), loss=1.0)])
        beside = (locked / "a.db-wal").read_bytes()
    (locked / "a.db-wal").write_bytes(beside)
    locked.chmod(0o555)
    assert "rows still in a.db-wal; copy both files elsewhere" in _ran(
        AS_ANOTHER.format(use="reading"), locked / "a.db"
    )
