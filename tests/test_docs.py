"""The documents keep what they promise: links resolve, decisions fit a page, nothing is tied to one machine."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from dovetail import __version__
from dovetail.api.measured_sets import QUICK
from dovetail.files.measurements import SHIPPED
from tests.page_rules import (
    FENCE,
    bare_equations,
    glossary_heads,
    glossary_words,
    sections,
    unknown_names,
    wrong_commands,
)

ROOT = Path(__file__).resolve().parent.parent
DECISIONS = ROOT / "docs" / "decisions"
PAGE_LINES = 70
README_COLUMNS = 80
README_WORDS = 900
SKIPPED_FOLDERS = {
    ".git",
    ".venv",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    "site",
    "dist",
    "__pycache__",
}

INLINE_CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.MULTILINE)
# "One word, one meaning", as the style of this codebase has them.
OF_STYLE = ("device", "rank", "stage", "axis", "dim", "plan", "design", "outcome", "tp", "pp", "dp", "ep", "cp")
# Spelled apart so that this file does not find itself.
MACHINE_WORDS = {
    "an absolute path of one machine": re.compile(r"(?<![\w.~*$}\])-])/" + r"(?:work|root|home|Users|opt)/"),
    "a package index": re.compile(r"--(?:extra-)?" + r"index-url|--" + r"find-links|--" + r"trusted-host"),
}


@cache
def text_files() -> dict[Path, str]:
    """Every text file git tracks or would track, with its text."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0 and listing.stdout:
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:  # a source archive, or a checkout git does not trust
        paths = [path for path in ROOT.rglob("*") if not SKIPPED_FOLDERS & set(path.relative_to(ROOT).parts)]
    return {path: text for path in sorted(paths) if path.is_file() and (text := text_of(path)) is not None}


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def markdown_files() -> list[Path]:
    return [path for path in text_files() if path.suffix == ".md"]


def prose(text: str) -> str:
    """Markdown without code, where brackets and parentheses mean something else."""
    return INLINE_CODE.sub("", FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> list[str]:
    """Links of one page that lead nowhere inside the repository."""
    broken = []
    for target in LINK.findall(prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            broken.append(f"{page.name}: {target} leads nowhere")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            broken.append(f"{page.name}: {target} names no heading of {file.name}")
    return broken


def machine_words(text: str) -> list[str]:
    return [
        f"line {number} holds {what}: {line.strip()[:100]}"
        for number, line in enumerate(text.splitlines(), start=1)
        for what, pattern in MACHINE_WORDS.items()
        if pattern.search(line)
    ]


def decision_pages() -> list[Path]:
    return sorted(DECISIONS.glob("[0-9]*.md"))


def test_the_readme_names_the_two_commands_a_newcomer_needs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make run" in readme
    assert "make test" in readme


def test_the_readme_is_read_in_a_terminal_too():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    wide = [line for line in readme.splitlines() if len(line) > README_COLUMNS]
    assert not wide, f"wider than {README_COLUMNS} columns:\n" + "\n".join(wide)


def test_the_readme_is_short_and_leads_to_scripts_measuring_and_logs():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.split()) <= README_WORDS
    for word in ("--world-size", "dovetail measure", "training logs", "docs/howto/capture-a-training-script.md"):
        assert word in readme, word


def test_the_changelog_says_which_numbers_moved_and_has_the_version_of_the_package():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    assert releases[0].startswith("Unreleased\n")
    assert re.match(rf"{re.escape(__version__)} - \d{{4}}-\d\d-\d\d\n", releases[1])
    assert all("### Numbers" in release for release in releases)


def test_every_internal_link_resolves():
    pages = markdown_files()
    assert len(pages) > 3, "no pages were found, so no link was tried"
    broken = [line for page in pages for line in broken_links(page, text_files()[page])]
    assert not broken, "\n" + "\n".join(broken)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "model").glob("*.md")), ids=lambda page: page.stem)
def test_every_equation_says_what_it_is_valid_for_and_where_it_comes_from(page):
    bare = bare_equations(page)
    assert not bare, "\n" + "\n".join(bare)


def test_the_glossary_has_every_word_once_in_order_and_those_of_the_style():
    words = [found[1] for head in glossary_heads() if (found := re.match(r"\*\*(.+?)\*\*", head))]
    plain = [re.sub(r"[^a-z0-9 ]", "", word.lower()) for word in words]
    assert plain == sorted(set(plain))
    assert set(glossary_words()) >= set(OF_STYLE)


def test_the_glossary_has_every_label_that_an_answer_begins_with():
    answers = sorted((ROOT / "examples").glob("*.out.txt"))
    heads = [file.read_text(encoding="utf-8").partition("\n\n")[0] for file in answers]
    labels = {label for head in heads for label in re.findall(r"^  ([a-z0-9][\w %]*?)  +\S", head, re.MULTILINE)}
    assert len(labels) > 5
    assert labels <= set(glossary_words())


def test_commands_on_every_page_exist_and_have_the_options_that_are_used():
    pages = [page for page in markdown_files() if page.name not in ("CHANGELOG.md", "cli.md")]
    wrong = [f"{page.relative_to(ROOT)}: {line}" for page in pages for line in wrong_commands(text_files()[page])]
    assert not wrong, "\n" + "\n".join(wrong)


def test_files_commands_constants_and_options_that_pages_name_are_there():
    pages = [page for page in markdown_files() if page.is_relative_to(ROOT / "docs") and page.parent != DECISIONS]
    pages.append(ROOT / "README.md")
    unknown = [f"{page.relative_to(ROOT)}: {name}" for page in pages for name in unknown_names(text_files()[page])]
    assert not unknown, "\n" + "\n".join(unknown)


def test_the_comparison_has_the_accuracy_that_the_accuracy_page_has():
    accuracy = (ROOT / "benchmarks" / "results" / "accuracy.md").read_text(encoding="utf-8")
    comparison = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    beside = sections(accuracy)["Against other predictors"]
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \| ([\d.]+) \|", beside, re.MULTILINE)
    assert len(rows) > 3
    missing = [f"{what}: {ours} %, n = {n}" for what, n, ours in rows if f"| {ours} %, n = {n} |" not in comparison]
    assert not missing, f"docs/comparison.md does not have {missing}"


def test_the_page_on_validation_names_the_sets_that_are_asked_for_without_a_name():
    page = (ROOT / "docs" / "howto" / "validate-and-calibrate.md").read_text(encoding="utf-8")
    [told] = re.findall(r"^dovetail validate +# what ships: (.*)$", page, re.MULTILINE)
    assert tuple(told.split(", ")) == QUICK
    by_name = [name for name in SHIPPED if name not in QUICK]
    assert all(re.search(rf"^dovetail validate {name} +#", page, re.MULTILINE) for name in by_name)


def test_there_are_decisions_and_each_is_listed_in_the_index():
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    pages = decision_pages()
    assert pages
    missing = [page.name for page in pages if f"]({page.name})" not in index]
    assert not missing, f"docs/decisions/README.md does not link {', '.join(missing)}"


def test_decision_numbers_count_up_without_a_gap():
    numbers = [int(page.name[:4]) for page in decision_pages()]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("page", decision_pages(), ids=lambda page: page.stem)
def test_a_decision_is_one_page_that_says_what_lost_and_what_would_change_our_mind(page):
    text = page.read_text(encoding="utf-8")
    num_lines = len(text.splitlines())
    assert num_lines <= PAGE_LINES, f"{page.name} has {num_lines} lines; a decision is a page, {PAGE_LINES} at most"
    for heading in ("## What lost", "## What would change our mind"):
        assert heading in text, f"{page.name} has no heading '{heading}'"


def test_no_file_is_tied_to_one_machine():
    found = [f"{path.relative_to(ROOT)}: {line}" for path, text in text_files().items() for line in machine_words(text)]
    assert not found, "\n" + "\n".join(found)


# --- the checks themselves can fail ---------------------------------------------------------------------------------


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# One heading: yes\n", encoding="utf-8")
    text = (
        "[a](other.md) [b](missing.md) [c](other.md#one-heading-yes) [d](other.md#two) [e](https://example.org/x)\n"
        "`[f](in-code.md)`\n```\n[g](in-fence.md)\n```\n"
    )
    assert broken_links(page, text) == [
        "page.md: missing.md leads nowhere",
        "page.md: other.md#two names no heading of other.md",
    ]


def test_a_command_or_option_that_is_not_there_is_found():
    fenced = "```sh\n$ dovetail simulate x.yaml --seq 8 --sequence 8\ndovetail guess --json\n```\n"
    page = f"{fenced}\n    dovetail op x --nope\n"
    assert wrong_commands(page) == [
        "--sequence in: $ dovetail simulate x.yaml --seq 8 --sequence 8",
        "no command: dovetail guess --json",
        "--nope in: dovetail op x --nope",
    ]


def test_a_name_of_nothing_is_found():
    good = (
        "`cost/costs.py`, `tests/pages.py`, `make run`, `python -m benchmarks.bars planner`, `SM_HELD_FRAC`, `--json`"
    )
    own = '`mine.py`\n\n```python title="mine.py"\n```\n'
    bad = ("cost/nothing.py", "make haste", "python -m benchmarks.bars nothing", "NO_SUCH_FRAC", "--no-such-option")
    assert unknown_names(f"{good}, {own}") == []
    assert unknown_names(", ".join(f"`{name}`" for name in bad)) == list(bad)


def test_an_equation_without_its_range_or_source_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\nWords.\n\n## One\n\n    a = b + c\n\n**Valid for** all.\n\n**Source**: counted.\n\n"
        "## Two\n\nA step takes `max(a, b)`.\n\n**Valid for** all.\n\n## Three\n\n```text\nstep = 3\n```\n\n"
        "## Four\n\n| part | equation |\n|---|---|\n",
        encoding="utf-8",
    )
    assert bare_equations(page) == [
        "page.md: 'Two' lacks a paragraph that begins **Source**: ",
        "page.md: 'Four' lacks a paragraph that begins **Valid for**  and **Source**: ",
    ]


@pytest.mark.parametrize(
    "text", ["see /" + "work/x", "'/" + "root/a'", "(/" + "home/me/b)", "pip install --extra-" + "index-url x"]
)
def test_words_of_one_machine_are_found(text):
    assert len(machine_words(f"fine\n{text}\n")) == 1


@pytest.mark.parametrize(
    "text", ["https://example.org/" + "work/x", "docs/" + "home/x.md", "./" + "work/x", "a / root / b"]
)
def test_words_that_only_look_like_one_machine_are_allowed(text):
    assert machine_words(text) == []
