from __future__ import annotations

import json

import pytest

from dovetail.errors import InvalidInput
from dovetail.files import text as text_module
from dovetail.files.measurements import (
    PUBLISHED_GEMM,
    SHIPPED,
    csv_files,
    load_measurements,
    published_files,
    shipped_folder,
)
from dovetail.files.validation_results import load_results
from dovetail.files.written import check_writable, write_file

BAR = {"statistic": "MAPE", "limit_frac": 0.1, "measured_frac": 0.05, "holds": True}
SCORE = {
    "kind": "",
    "num_rows": 3,
    "mape_frac": 0.05,
    "median_frac": 0.04,
    "p90_frac": 0.09,
    "worst_frac": 0.1,
    "bias_frac": -0.01,
    "bars": [BAR],
    "worst": [],
}
SET = {"set": "mine", "chip": "h200-sxm", "unit": "s", "scores": [SCORE], "skipped": []}
RESULTS = {"holds": True, "sets": [SET], "notes": []}


def written(folder, data, name="t.csv"):
    file = folder / name
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


@pytest.mark.parametrize(
    "data",
    [
        "m,n\n1,2\n3,4\n",
        "# a comment\nm,n\n# another\n1,2\n\n3,4\n",
        b"\xef\xbb\xbfm,n\r\n1,2\r\n3,4\r\n",
        ' M , N \n" 1 ",2\n3,"4"\n',
        "m,n\n1,2\n,\n3,4",
    ],
)
def test_comments_blank_lines_quotes_bom_and_spaces_do_not_matter(tmp_path, data):
    found = load_measurements(written(tmp_path, data))
    assert found.columns == ("m", "n")
    assert found.rows == (("1", "2"), ("3", "4"))
    assert found.name == "t"


def test_a_row_knows_its_line_past_comments_and_quoted_line_breaks(tmp_path):
    found = load_measurements(written(tmp_path, '# c\nm,n\n1,"a\nb"\n# c\n3,4\n'))
    assert found.lines == (4, 6)
    assert found.rows[0] == ("1", "a\nb")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("m,n\n", "the file holds no row of measurements"),
        ("m,n,M\n1,2,3\n", "column 'm' is given twice; keep one (FILE:1)"),
        ("m,n\n1,2\n1,2,3\n", "as many cells as the header, 2; got 3 (FILE:3)"),
        ("m,n\n1\n", "as many cells as the header, 2; got 1 (FILE:2)"),
        ('m,n\n1,"2\n', "cannot read this as CSV"),
        ('m,n\n1,"2"x\n', "cannot read this as CSV"),
        (b"m,n\n1,\xff\xfe\n", "must be UTF-8 text"),
        (b"\xff\xfem\x00,\x00n\x00", "UTF-16"),
        (b"m,n\n1,\x00\n", "NUL character (FILE:2)"),
        (bytes(range(128, 256)) * 50, "must be UTF-8 text"),
        (",".join(f"c{i}" for i in range(1001)) + "\n", "at most 1,000 columns; got 1,001 (FILE:1)"),
        ("m" * 200_000 + "\n1\n", "cannot read this as CSV: field larger than field limit"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line_with_its_place(tmp_path, data, words):
    file = written(tmp_path, data)
    with pytest.raises(InvalidInput) as refused:
        load_measurements(file)
    assert words.replace("FILE", str(file)) in str(refused.value)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "CSV_LIMIT_BYTES", 10)
    with pytest.raises(InvalidInput, match=r"a CSV file has at most 10 B; .* has 12.0 B"):
        load_measurements(written(tmp_path, "m,n\n1,2\n3,4\n"))
    assert text_module.CSV_LIMIT_BYTES == 10


def test_a_missing_file_is_told_with_what_it_may_have_meant(tmp_path):
    written(tmp_path, "m\n1\n", "gemm.csv")
    with pytest.raises(InvalidInput, match=r"there is no file .*; did you mean gemm\.csv\?"):
        load_measurements(tmp_path / "gem.csv")
    with pytest.raises(InvalidInput, match="is a folder"):
        load_measurements(tmp_path)


def test_a_folder_of_a_trainer_names_its_log(tmp_path):
    (tmp_path / "trainer_state.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"holds no CSV file; name its training log, trainer_state\.json"):
        csv_files(tmp_path)


def test_the_tables_of_a_folder_come_in_order_of_their_names(tmp_path):
    with pytest.raises(InvalidInput, match="holds no CSV file"):
        csv_files(tmp_path)
    for name in ("b.csv", "a.CSV", "notes.md"):
        written(tmp_path, "m\n1\n", name)
    assert [file.name for file in csv_files(tmp_path)] == ["a.CSV", "b.csv"]
    with pytest.raises(InvalidInput, match="cannot list folder"):
        csv_files(tmp_path / "absent")


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_can_be_read(name):
    assert all(len(load_measurements(file)) for file in csv_files(shipped_folder(name)))


def test_published_tables_are_looked_for_where_the_variable_says(tmp_path):
    assert published_files(PUBLISHED_GEMM, {}) == ()
    assert published_files(PUBLISHED_GEMM, {"DOVETAIL_REFERENCE_DATA": str(tmp_path)}) == ()
    (tmp_path / "third_party").mkdir()
    beside = written(tmp_path, "m\n1\n", PUBLISHED_GEMM[0])
    below = written(tmp_path / "third_party", "m\n1\n", PUBLISHED_GEMM[1])
    assert published_files(PUBLISHED_GEMM, {"DOVETAIL_REFERENCE_DATA": str(tmp_path)}) == (beside, below)


def test_what_was_not_written_by_validate_is_no_result(tmp_path):
    with pytest.raises(InvalidInput, match="sets is missing"):
        load_results(written(tmp_path, '{"holds": true, "notes": []}', "r.json"))
    good = json.dumps(RESULTS | {"recorded": "2026-01-01", "commit": "abc"})
    assert "recorded on 2026-01-01 at commit abc" in load_results(written(tmp_path, good, "r.json"))["notes"][0]
    with pytest.raises(InvalidInput, match=r"a trace of a profiler.*; pass --profile FILE"):
        load_results(written(tmp_path, '{"traceEvents": []}', "r.json"))


@pytest.mark.parametrize(
    ("bar", "score", "results", "told"),
    [
        ({}, {}, {}, ""),
        (
            {"holds": False},
            {},
            {"holds": False},
            r"holds is false, but .* keep the bar; .*bars\[0\]",
        ),
        ({"holds": False}, {}, {}, "keep the bar"),
        ({"measured_frac": 0.2}, {}, {}, "holds is true, but .* miss the bar"),
        ({}, {"mape_frac": 0.2}, {}, "holds is true, but .* miss the bar"),
        (
            {"measured_frac": 0.2, "holds": False},
            {},
            {},
            r"holds is true, but 1 of its 1 bars are missed; .*json: holds",
        ),
        ({"measured_frac": 0.2, "holds": False}, {}, {"holds": False}, ""),
        ({}, {}, {"holds": False}, "holds is false, but 0 of its 1 bars are missed"),
        ({}, {}, {"sets": []}, "results hold at least one set or profile; got none"),
    ],
)
def test_results_agree_with_themselves(tmp_path, bar, score, results, told):
    scores = [SCORE | {"bars": [BAR | bar]} | score]
    file = written(tmp_path, json.dumps(RESULTS | {"sets": [SET | {"scores": scores}]} | results), "r.json")
    if not told:
        assert load_results(file)["sets"]
        return
    with pytest.raises(InvalidInput, match=told):
        load_results(file)


def test_nothing_is_written_over_unasked_nor_half(tmp_path):
    file = written(tmp_path, "old", "c.yaml")
    with pytest.raises(InvalidInput, match="exists; pass --force"):
        check_writable(file, is_forced=False)
    check_writable(file, is_forced=True)
    with pytest.raises(InvalidInput, match="is a folder"):
        check_writable(tmp_path, is_forced=True)
    with pytest.raises(InvalidInput, match="there is no folder"):
        check_writable(tmp_path / "absent" / "c.yaml", is_forced=True)
    write_file(file, "new")
    assert file.read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["c.yaml"]
    with pytest.raises(InvalidInput, match="cannot write file"):
        write_file(tmp_path / "absent" / "c.yaml", "new")


def test_a_bar_of_a_score_is_by_what_scores_have(tmp_path):
    bar = {"statistic": "regret", "limit_frac": 0.1, "measured_frac": 0.0, "holds": True}
    text = json.dumps({"sets": [{"scores": [{"bars": [bar]}]}]})
    with pytest.raises(InvalidInput, match=r"no statistic named 'regret'; known: MAPE.*r\.json.*bars\[0\]\.statistic"):
        load_results(written(tmp_path, text, "r.json"))
