"""Files that are not specs, and files that mean harm, end in one line and at once."""

from __future__ import annotations

import builtins
import os
import time

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.job import load_spec
from dovetail.files.model import load_model
from dovetail.files.tree import MAX_DEPTH

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty (spec.yaml)"),
        ("# only a comment\n", "the file is empty (spec.yaml)"),
        ("~\n", "the file is empty (spec.yaml)"),
        ("llama3-8b", "a file holds keys with values, as in 'name: value'; got 'llama3-8b' (spec.yaml)"),
        ("- a\n- b\n", "a file holds keys with values, as in 'name: value'; got a list of 2 (spec.yaml)"),
        ("plan: ddp\n", "workload is missing; a spec has workload, cluster, plan (spec.yaml: workload)"),
        ("wokload: x\n", "no key of a spec is named 'wokload'; did you mean workload? (spec.yaml:1: wokload)"),
        ("plan: ddp\nplan: zero1\n", "key 'plan' is given twice, first on line 1; keep one (spec.yaml:2)"),
        ("a: 1\n---\nb: 2\n", "a file holds one document; remove the second one, after '---' (spec.yaml:2)"),
        ("plan: {tp: 8", "cannot read this as YAML: did not find expected ',' or '}' (spec.yaml:1)"),
        ("plan:\n\ttp: 8\n", "cannot read this as YAML: found character that cannot start any token (spec.yaml:2)"),
        (
            "a: !!python/object:os.system x\n",
            "tags such as '!!python/object:os.system' are not read; write the plain value",
        ),
        ("a: !custom {b: 1}\n", "tags such as '!custom' are not read; write the plain value (spec.yaml:1)"),
        ("? [a, b]\n: c\n", "a key must be a word, not a list or mapping (spec.yaml:1)"),
        ("a: &a x\n*a : b\n", "a key must be a word, not an alias (spec.yaml:2)"),
        ("a: *b\n", "alias '*b' names no value before it (spec.yaml:1)"),
        ("a: &a [*a]\n", "alias '*a' names no value before it (spec.yaml:1)"),
        ("<<: {plan: ddp}\n", "no key of a spec is named '<<'"),
        (LAUGHS, "a file holds at most 20,000 values, aliases written out (spec.yaml:5)"),
        ("a: [" + "1, " * 30_000 + "1]\n", "a file holds at most 20,000 values, aliases written out (spec.yaml:1)"),
        ("[" * 500_000, f"values are nested at most {MAX_DEPTH} deep (spec.yaml:1)"),
        ("a: " + "{b: " * 200_000, f"values are nested at most {MAX_DEPTH} deep (spec.yaml:1)"),
        ("plan: ddp\0\n", "a file must be text, and this one holds a NUL character (spec.yaml:1)"),
        ("plan: \x01\n", "cannot read this as YAML: control characters are not allowed (spec.yaml)"),
        ('a: "\\UFFFFFFFF"\n', "cannot read this as YAML: found invalid Unicode character escape code (spec.yaml:1)"),
        (
            "plan: ddp\n".encode("utf-16"),
            "a file must be UTF-8 text, and this one is UTF-16; save it as UTF-8 (spec.yaml)",
        ),
        (b"a: 1\nb: \xe9t\xe9\n", "a file must be UTF-8 text, and this one is not; save it as UTF-8 (spec.yaml:2)"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a file must be UTF-8 text, and this one is not; save it as UTF-8 (spec.yaml:1)"),
    ],
)
def test_a_file_that_is_no_spec_is_refused(refusal, text, message):
    started_s = time.process_time()  # of this process alone: a busy machine does not count
    assert refusal(text).startswith(message)
    assert time.process_time() - started_s < 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty (spec.json:1)"),
        ("{", "cannot read this as JSON: expecting property name enclosed in double quotes (spec.json:1)"),
        ('{"plan": 1,\n "plan": 2}', "key 'plan' is given twice; keep one (spec.json)"),
        ("[" * 500_000, f"values are nested at most {MAX_DEPTH} deep (spec.json)"),
        ('{"plan": ' + "[" * 40 + "]" * 40 + "}", f"values are nested at most {MAX_DEPTH} deep (spec.json)"),
        ('{"plan": [' + "1," * 300_000 + "1]}", "a JSON file holds at most 200,000 values; got 300,003 (spec.json)"),
        ('{"workload": "\\ud800.yaml", "cluster": 1, "plan": 1}', "cannot read file '\\ud800.yaml': that cannot be"),
        ('{"workload": "a\\u0000/b", "cluster": 1, "plan": 1}', "cannot read file 'a\\x00/b': that cannot be"),
        ('{"\\u001b[31m": 1}', "no key of a spec is named '\\x1b[31m'"),
    ],
)
def test_json_that_is_no_spec_is_refused(refusal, text, message):
    assert refusal(text, "spec.json").startswith(message)


def refused(path: object) -> str:
    with pytest.raises(InvalidInput) as error:
        load_spec(str(path))
    assert str(error.value).isprintable()
    return str(error.value)


def test_a_missing_file_names_those_beside_it(write):
    write("", "llama.yaml")
    assert refused("lama.yaml") == "there is no file 'lama.yaml'; did you mean llama.yaml?"
    assert refused("quite-another.yaml") == "there is no file 'quite-another.yaml'"
    assert refused("no/such.yaml") == "there is no file 'no/such.yaml'; there is no folder 'no' either"


def test_a_file_missing_from_a_spec_is_told_where_it_is_named(refusal, write):
    write("", "modelle.yaml")
    line = refusal("workload: {model: ./model.yaml}\ncluster: dgx-h100\nplan: ddp\n")
    assert (
        line == "there is no file 'model.yaml'; did you mean modelle.yaml or spec.yaml? (spec.yaml:1: workload.model)"
    )


def test_a_folder_is_no_file(write):
    write("", "folder/inside.yaml")
    assert refused("folder") == "'folder' is a folder; name a file in it"


def test_what_is_neither_file_nor_folder_is_refused_unread(write):
    write("")
    os.mkfifo("pipe.yaml")
    assert refused("pipe.yaml") == "'pipe.yaml' is not a plain file; write it to disk first"


def test_a_file_that_may_not_be_read_says_so(write, monkeypatch):
    file = write("plan: ddp\n")

    def forbidden(*_args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(builtins, "open", forbidden)
    assert refused(file) == "file 'spec.yaml' may not be read; check its permissions"


def test_a_name_too_long_for_the_file_system_is_refused(write):
    write("")
    assert "file name too long" in refused("a" * 300 + ".yaml")


def test_a_huge_file_is_refused_unread(write, monkeypatch):
    file = write("")
    os.truncate(file, 200_000_000)
    monkeypatch.setattr(builtins, "open", lambda *_args: pytest.fail("it was read"))
    assert refused(file) == "a spec file has at most 1 MiB; 'spec.yaml' has 190.7 MiB"


def test_a_huge_configuration_is_refused_and_a_large_one_is_read(write):
    os.truncate(write("", "config.json"), 9_000_000)
    with pytest.raises(InvalidInput, match=r"a JSON file has at most 8 MiB; 'config.json' has 8.6 MiB"):
        load_model("config.json")
    with pytest.raises(InvalidInput, match="no key of this file is named 'a'"):
        load_model(str(write('{"a": "' + "x" * 2_000_000 + '"}', "config.json")))


def test_files_that_name_each_other_in_a_circle_are_refused(refusal, write):
    write("workload: spec.yaml\n", "b.yaml")
    line = refusal("workload: b.yaml\ncluster: dgx-h100\nplan: ddp\n")
    assert line == "files must not name each other in a circle: spec.yaml -> b.yaml -> spec.yaml (b.yaml:1: workload)"


@pytest.mark.parametrize("plan", ["spec.yaml", "./spec.yaml", "{base: spec.yaml, pp: 2}"])
def test_a_file_that_names_itself_is_refused(refusal, plan):
    assert refusal(plan=plan).startswith("files must not name each other in a circle: spec.yaml -> spec.yaml")


def test_a_long_chain_of_files_is_refused(refusal, write):
    for link in range(1, 10):
        write(f"plan: {link + 1}.yaml\n", f"{link}.yaml")
    assert refusal(plan="1.yaml") == "files name files at most 8 deep; write the value out instead (7.yaml:1: plan)"


def test_a_spec_that_stands_for_a_section_has_no_unknown_keys(refusal, write):
    write("plan: ddp\nplam: zero1\n", "other.yaml")
    line = refusal(plan="other.yaml")
    assert line == "no key of a spec is named 'plam'; did you mean plan? (other.yaml:2: plam)"
