"""What pages of the documentation promise: equations with their range and source, and commands that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
SET_APART = re.compile(r"^ {4,}\S.*\n", re.MULTILINE)
RELATION = re.compile(r"[=≥≤]|[<>]=")
INLINE_EQUATION = re.compile(r"`[^`\n]*(?: = |max\(|min\()[^`\n]*`")
CODE_BLOCK = re.compile(r"^(?:```|~~~)[^\n]*\n(.*?)^(?:```|~~~)$|((?:^ {4}\S.*\n)+)", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of a page, fenced blocks left out."""
    parts = re.split(r"^#+ +(.*)$", FENCE.sub("", text), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def has_equations(section: str) -> bool:
    """Whether something is computed there: in a block set apart, in code within a line, or in a table of equations."""
    apart = "".join(SET_APART.findall(section))
    return bool(RELATION.search(apart) or INLINE_EQUATION.search(section) or "| equation |" in section)


def bare_equations(page: Path) -> list[str]:
    """Sections with equations that do not say what they are valid for and where they come from."""
    found = []
    for heading, section in sections(page.read_text(encoding="utf-8")).items():
        lacking = [words for words in ("**Valid for** ", "**Source**: ") if f"\n{words}" not in section]
        if has_equations(section) and lacking:
            found.append(f"{page.name}: {heading!r} lacks a paragraph that begins {' and '.join(lacking)}")
    return found


def glossary_heads() -> list[str]:
    """What stands before the first colon of every item of the glossary, in its order."""
    page = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^- ([^:]+): ", page, re.MULTILINE)


def glossary_words() -> list[str]:
    """The words of the glossary, in its order; `plain, code` are two."""
    return [word.strip("*` ") for head in glossary_heads() for word in head.split(",")]


@cache
def options_of() -> dict[str, set[str]]:
    """The options of every command, as the reference has them from `--help`."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    parts = re.split(r"^## dovetail ?(.*)$", page, flags=re.MULTILINE)
    shared = re.search(r"^Every command takes .*$", page, re.MULTILINE)
    of_job = re.search(r"^Job options are .*$", page, re.MULTILINE)
    assert shared is not None
    assert of_job is not None
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    whole = {name: text + shared[0] + (of_job[0] if "\nJob options, " in text else "") for name, text in texts.items()}
    return {name: set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) for name, text in whole.items()}


def wrong_commands(text: str) -> list[str]:
    """Commands in the blocks of a page that no command has, or with options that theirs has not."""
    found = []
    for fenced, indented in CODE_BLOCK.findall(text):
        block = fenced or indented
        for line in re.sub(r"\\\n(?:> )?", " ", block).splitlines():
            typed = re.match(r"(?:[$>] )?(?:\.venv/bin/)?dovetail ((?:trace )?[a-z]+)\b([^|#;]*)", line.strip())
            if not typed or " | " in line.partition("dovetail")[2][:30]:
                continue
            name, rest = typed.groups()
            rest = rest.partition(" -- ")[0]  # after that come options of somebody else's script
            options = options_of().get(name)
            if options is None:
                found.append(f"no command: {line.strip()}")
            else:
                found += [f"{option} in: {line.strip()}" for option in OPTION.findall(rest) if option not in options]
    return found


@cache
def package_text() -> str:
    """All code that pages speak of: the package and the benchmarks."""
    files = (*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py"))
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(files))


@cache
def modules() -> tuple[str, ...]:
    return tuple(file.as_posix() for file in (ROOT / "src" / "dovetail").rglob("*.py"))


def _is_module(name: str, page: str) -> bool:
    """Whether a Python file is there, wherever in the package; or one that the page or the package writes or starts."""
    is_there = (ROOT / name).exists() or any(module.endswith(f"/{name}") for module in modules())
    return is_there or name in package_text() or any(name in fence[0] for fence in FENCE.finditer(page))


def _is_benchmark(module: str, names: str) -> bool:
    bars = names.split() if module == "benchmarks.bars" else ()
    files = (module.replace(".", "/"), *(f"benchmarks/bar_{bar}" for bar in bars))
    return all((ROOT / f"{file}.py").is_file() for file in files)


def _stands(name: str, page: str) -> bool:
    """Whether a name in code of a page is one of the project's, of the page's own, or of a program that it starts."""
    if found := re.fullmatch(r"([\w./-]+\.py)(?:: ?[\w, ]+)?", name):
        return _is_module(found[1], page)
    if found := re.match(r"python -m (benchmarks[\w.]*)([a-z_ ]*)", name):
        return _is_benchmark(found[1], found[2])
    if found := re.fullmatch(r"make ([a-z]+)", name):
        return re.search(rf"^{found[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE) is not None
    if re.fullmatch(r"(?:tests|benchmarks|examples|docs|src)/[\w./-]+", name):
        return (ROOT / name).exists()
    if re.match(r"--[a-z]|[A-Z][A-Z0-9]*_[A-Z0-9_]+$", name):
        word = re.split(r"[ =]", name)[0]
        return word in package_text() or any(word in options for options in options_of().values())
    return True


def unknown_names(page: str) -> list[str]:
    """Files, commands, targets, constants and options that a page names and that are nowhere."""
    names = dict.fromkeys(re.findall(r"`([^`\n]+)`", FENCE.sub("", page)))
    return [name for name in names if not _stands(name, page)]
