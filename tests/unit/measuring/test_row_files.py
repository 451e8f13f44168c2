"""Tables that grow row by row: what stands is kept, what a killed process left half written is not."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.measuring.row_files import RowFile


def table(folder) -> RowFile:
    return RowFile(file=folder / "deep" / "bmm.csv", columns=("b", "m", "time_us"), num_keys=2)


def test_a_new_table_has_its_header_and_no_rows(tmp_path):
    rows = table(tmp_path)
    assert rows.opened() == {}
    assert rows.file.read_text(encoding="utf-8") == "b,m,time_us\n"


def test_rows_are_read_back_by_their_key(tmp_path):
    rows = table(tmp_path)
    rows.opened()
    rows.append(("8", "128", "5.5"))
    rows.append(("8", "a,b", "6.5"))
    assert rows.opened() == {("8", "128"): ("8", "128", "5.5"), ("8", "a,b"): ("8", "a,b", "6.5")}


@pytest.mark.parametrize("cut", ["8,256", "8,256,", "8,256,7.2", '"8'])
def test_a_last_line_without_an_end_is_cut_off(tmp_path, cut):
    rows = table(tmp_path)
    rows.opened()
    rows.append(("8", "128", "5.5"))
    whole = rows.file.read_text(encoding="utf-8")
    rows.file.write_text(whole + cut, encoding="utf-8")
    assert set(rows.opened()) == {("8", "128")}
    assert rows.file.read_text(encoding="utf-8") == whole
    rows.append(("8", "256", "7.2"))
    assert len(rows.opened()) == 2


def test_lines_with_other_numbers_of_cells_are_no_rows_and_stay(tmp_path):
    rows = table(tmp_path)
    rows.opened()
    with open(rows.file, "a", encoding="utf-8") as stream:
        stream.write("8,512\n8,1024,1.0,2.0\n8,128,5.5\n")
    assert set(rows.opened()) == {("8", "128")}
    assert "8,512\n" in rows.file.read_text(encoding="utf-8")


def test_bytes_that_are_no_text_cost_their_own_line(tmp_path):
    rows = table(tmp_path)
    rows.opened()
    rows.append(("8", "128", "5.5"))
    with open(rows.file, "ab") as stream:
        stream.write(b"\xff\xfe\n16,128,6.0\n")
    assert set(rows.opened()) == {("8", "128"), ("16", "128")}


def test_a_table_with_other_columns_is_refused(tmp_path):
    rows = table(tmp_path)
    rows.file.parent.mkdir()
    rows.file.write_text("m,n,time_us\n1,2,3\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="this one has m, n, time_us; name another folder"):
        rows.opened()


def test_a_folder_that_cannot_be_made_is_refused_in_a_line(tmp_path):
    (tmp_path / "deep").write_text("a file", encoding="utf-8")
    with pytest.raises(InvalidInput, match="cannot"):
        table(tmp_path).opened()
