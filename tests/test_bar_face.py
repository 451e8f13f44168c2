"""The bar of words counts every page, as `wc -w` does."""

from __future__ import annotations

from benchmarks.bar_face import words


def test_words_are_counted_plainly_in_every_page_and_in_no_other_file(tmp_path):
    (tmp_path / "protocols").mkdir()
    (tmp_path / "page.md").write_text("# Two\n\n| a | b |\n|---|---|\n", encoding="utf-8")
    (tmp_path / "protocols" / "2026-11-17-record.md").write_text("dated too, `x = 1`\n", encoding="utf-8")
    (tmp_path / "table.csv").write_text("not a page\n", encoding="utf-8")
    assert words(tmp_path) == {"page.md": 8, "protocols/2026-11-17-record.md": 5}
