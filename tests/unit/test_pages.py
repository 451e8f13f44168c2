"""Pages are read as their readers would: files to save, commands to type, and what is shown of the answers."""

from __future__ import annotations

import pytest

from tests.pages import Command, File, as_shown, rewritten, steps

PAGE = """# A page

```text title="a.csv"
m,n
1,2
```

```console
$ first \\
> --with more
one
two

$ second
head
...
tail
```

```sh
$ not this
```
"""


def test_files_and_commands_come_in_the_order_of_the_page():
    assert list(steps(PAGE)) == [
        File(name="a.csv", text="m,n\n1,2\n"),
        Command(typed="first \\\n--with more", shown=("one", "two")),
        Command(typed="second", shown=("head", "...", "tail")),
    ]


def test_a_page_whose_answers_stand_is_left_as_it_is():
    answers = {"first \\\n--with more": "one\ntwo\n", "second": "\nhead\nx\ny\ntail\n"}
    assert rewritten(PAGE, lambda step: answers.get(getattr(step, "typed", ""), "")) == PAGE


def test_an_answer_that_moved_is_what_the_page_then_shows():
    moved = rewritten(PAGE, lambda step: "now\nx\nthen\n" if isinstance(step, Command) else "")
    assert "$ first \\\n> --with more\nnow\nx\nthen\n\n$ second\nnow\n...\nthen\n```" in moved


def test_a_page_cannot_leave_out_more_than_there_is():
    with pytest.raises(AssertionError, match="nothing is left to leave out"):
        as_shown(Command(typed="x", shown=("a", "...", "b")), "a\nb\n")
