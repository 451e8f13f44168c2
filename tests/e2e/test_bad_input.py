"""Whatever is wrong with the input: exit code 2, one line that says what and where, and no traceback."""

from __future__ import annotations

import json

import pytest

from dovetail.report.plain import SCHEMA_VERSION

GOOD = """\
workload: {model: llama3-8b, global_batch: 64, seq: 4096}
cluster: {name: dgx-h100, devices: 16}
plan: {tp: 2, zero_stage: 1}
"""
OWN_CLUSTER = """\
workload: llama3-8b
cluster:
  chip: h100-sxm
  topology: [{name: net, kind: switch, devices: 8, bandwidth: %s, latency: 2 us, oversubscription: %s}]
plan: zero3
"""
BAD_SPECS = {
    "unknown model": (GOOD.replace("llama3-8b", "lama3-8b"), "did you mean llama3-8b"),
    "unknown key": (GOOD.replace("global_batch", "global_bath"), "global_batch"),
    "a key beside its section": (GOOD.replace("workload: {model: llama3-8b, ", "model: llama3-8b\nworkload: {"),
                                 "no key of a spec is named 'model'; it belongs under workload"),
    "unknown section": (GOOD + "network: fast\n", "network"),
    "missing section": (GOOD.replace("plan:", "# plan:"), "plan is missing"),
    "missing unit": (OWN_CLUSTER % ("400", "1"), "unit"),
    "wrong unit": (OWN_CLUSTER % ("400 GiB", "1"), "unit"),
    "not a number": (OWN_CLUSTER % ("400 GB/s", ".nan"), "oversubscription"),
    "infinite": (OWN_CLUSTER % ("400 GB/s", ".inf"), "oversubscription"),
    "heads that do not divide": (GOOD.replace("tp: 2", "tp: 3").replace("16}", "24}"), "must divide"),
    "batch that does not divide": (GOOD.replace("64", "63"), "global_batch"),
    "devices that do not multiply": (GOOD.replace("tp: 2", "tp: 2, dp: 3"), "16 devices"),
    "an axis that does not nest": (GOOD.replace("tp: 2", "pp: 16, axis_order: [pp, tp, cp, dp]").replace("16}", "48}"),
                                   ""),
    "wrong yaml": ("workload: [unclosed\n", "YAML"),
    "a list": ("- a\n- b\n", "keys"),
    "empty": ("", "empty"),
    "a tag": ("workload: !!python/object/apply:os.system [ls]\n", "tags"),
    "a cycle of aliases": ("workload: &a {model: *a}\n", "alias"),
    "a file that names itself": ("workload: spec.yaml\ncluster: dgx-h100\nplan: zero3\n", "circle"),
    "a key given twice": (GOOD + "plan: zero3\n", "twice"),
    "two documents": (GOOD + "---\n" + GOOD, "one document"),
    "deep nesting": ("a: " + "[" * 5000 + "]" * 5000 + "\n", "deep"),
    "control characters": (GOOD.replace("llama3-8b", '"a\\u001b[31m\\nb"'), "a"),
}  # fmt: skip


def check_refused(ran, *words):
    assert ran.returncode == 2, ran.stdout
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    assert ran.stderr.startswith("dovetail: ")
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.endswith("\n")
    assert "\x1b" not in ran.stderr
    for word in words:
        assert word in ran.stderr


def test_a_refusal_is_json_too_where_json_was_asked_for(dovetail):
    ran = dovetail("simulate", "nowhere.yaml", "--json")
    assert ran.returncode == 2
    said = json.loads(ran.stdout)
    assert said == {"schema_version": SCHEMA_VERSION, "error": "there is no file 'nowhere.yaml'"}
    assert ran.stderr == f"dovetail: {said['error']}\n"


@pytest.mark.parametrize("case", BAD_SPECS)
def test_a_bad_spec_is_refused_in_one_line_with_its_place(dovetail, tmp_path, case):
    text, words = BAD_SPECS[case]
    spec = tmp_path / "spec.yaml"
    spec.write_text(text, encoding="utf-8")
    check_refused(dovetail("simulate", spec), str(spec), words)


def test_the_spec_that_the_bad_ones_are_made_from_is_good(dovetail, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text(GOOD, encoding="utf-8")
    assert dovetail("simulate", spec).returncode == 0


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"workload: \xff\xfe\xfd", "UTF-8"), ("a: b\n".encode("utf-16"), "UTF-16"), (b"a: b\0c\n", "NUL"),
     (b"#" * 3_000_000, "1 MiB")],
    ids=["latin bytes", "utf-16", "a NUL", "huge"],
)  # fmt: skip
def test_bytes_that_cannot_be_a_spec_are_refused(dovetail, tmp_path, data, word):
    spec = tmp_path / "spec.yaml"
    spec.write_bytes(data)
    check_refused(dovetail("simulate", spec), str(spec), word)


def test_a_missing_file_is_refused_with_those_beside_it(dovetail):
    ran = dovetail("simulate", "examples/llama3-70b-512xh10.yaml")
    check_refused(ran, "examples/llama3-70b-512xh10.yaml", "did you mean llama3-70b-512xh100.yaml")


def test_a_folder_is_refused(dovetail, tmp_path):
    check_refused(dovetail("simulate", tmp_path), str(tmp_path), "folder")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulat",), "did you mean 'simulate'"),
        (("simulate", "--modle", "x"), "did you mean --model"),
        (("simulate", "--seq", "many"), "--seq"),
        (("simulate", "--seq", "0"), "--seq must be at least 1; got 0"),
        (("simulate", "--seq", "99999999999999999999"), "--seq must be at most 1,000,000,000; got 9999"),
        (("simulate", "--global-batch", "1" + "0" * 30), "--global-batch must be at most 1,000,000,000; got 1000"),
        (("simulate", "--global-batch", "9" * 5000), "--global-batch must be at most 1,000,000,000; got a number of"),
        (("simulate", "--devices", "0"), "--devices must be at least 1; got 0"),
        (("simulate", "--devices", "-8"), "--devices must be at least 1; got -8"),
        (("simulate", "--devices", "1.5"), "--devices must be a whole number; got '1.5'"),
        (("simulate", "--model", "gnmt", "--cluster", "dgx-h100", "--plan", "zero3", "--seq", "1000000000",
          "--global-batch", "1000000000"), "multiply to more than can be counted"),
        (("simulate", "--model", "gpt2-345m", "--cluster", "dgx-h100", "--plan", "ddp", "--seq", "4096"), "(--seq)"),
        (("simulate", "llama3-8b"), "'llama3-8b' is a model, not a spec; pass --model llama3-8b, with --cluster and"),
        (("simulate", "dgx-h100"), "pass --cluster dgx-h100, with --model and --plan"),
        (("simulate", "zero3", "--model", "llama3-8b"), "pass --plan zero3"),
        (("simulate", "h100-sxm"), "'h100-sxm' is a chip, not a spec; name it in a cluster"),
        (("simulate", "examples/llama3-70b-512xh100.yaml", "--compute", "bf17"), "did you mean bf16? (--compute)"),
        (("simulate", "--model", "bert-large", "--cluster", "ace-torus", "--plan", "ddp", "--compute", "fp8"),
         "ace-npu has no peak rate for fp8"),
        (("simulate", "--model"), "--model"),
        (("simulate", "a.yaml", "b.yaml"), "b.yaml"),
        (("show",), "NAME"),
        (("show", "zero3", "--kind", "plans"), "did you mean plan"),
        (("show", "x\ny"), "x\\ny"),
        (("simulate",), "--model is missing"),
        (("simulate", "--model", "llama3-8b"), "--cluster is missing"),
        (("simulate", "--model", "llama3-8b", "--cluster", "dgx-h100"), "--plan is missing"),
        (("simulate", "--model", "llama3-8b", "--cluster", "dgx-h100", "--plan", "zero4"), "must be 0, 1, 2 or 3"),
        (("simulate", "examples/my-cluster.yaml", "--devices", "64"), "--devices"),
        (("simulate", "examples/llama3-70b-512xh100.yaml", "--devices", "13"), "--devices"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_wrong_usage_is_refused_in_one_line_that_helps(dovetail, arguments, words):
    check_refused(dovetail(*arguments), words)


def test_a_configuration_given_as_a_spec_is_pointed_to_its_option(dovetail, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama"}', encoding="utf-8")
    check_refused(dovetail("simulate", config), f"is a model, not a spec; pass --model {config}")


def test_a_file_whose_name_holds_control_characters_names_nothing_unescaped(dovetail, tmp_path):
    spec = tmp_path / "a\x1b[31mb.yaml"
    spec.write_text(GOOD, encoding="utf-8")
    for ran in (dovetail("simulate", spec), dovetail("simulate", spec, "--seq", "2048"), dovetail("show", spec)):
        assert ran.returncode == 0, ran.stderr
        assert "\x1b" not in ran.stdout
    spec.write_text(GOOD.replace("tp: 2", "tp: 3"), encoding="utf-8")
    check_refused(dovetail("simulate", spec), "tensor_parallel=3")
