"""What can be named is listed, and each entry can be shown."""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("models", "llama3-70b"),
        ("chips", "h100-sxm"),
        ("clusters", "dgx-h100"),
        ("plans", "zero3"),
        ("methods", "zb-v"),
    ],
)
def test_a_catalogue_is_listed_for_people_and_programs(dovetail, command, name):
    told, said = dovetail(command), dovetail(command, "--json")
    assert (told.returncode, said.returncode, told.stderr, said.stderr) == (0, 0, "", "")
    names = [entry["name"] for entry in json.loads(said.stdout)[command]]
    assert name in names
    assert told.stdout.startswith(f"{len(names)} {command}\n")
    assert all(f"  {known} " in told.stdout for known in names)
    assert max(len(line) for line in told.stdout.splitlines()) <= 80


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llama3-70b", "70,553,706,496"),
        ("h100-sxm", "NVIDIA H100 Tensor Core GPU datasheet"),
        ("dgx-h100", "nvlink"),
        ("zero3", "arXiv:1910.02054"),
        ("examples/my-cluster.yaml", "ethernet"),
    ],
)
def test_an_entry_is_shown_with_its_source(dovetail, name, words):
    told, said = dovetail("show", name), dovetail("show", name, "--json")
    assert (told.returncode, said.returncode) == (0, 0), told.stderr
    assert words in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 80
    assert json.loads(said.stdout)


def test_a_name_in_two_catalogues_asks_which(dovetail):
    ran = dovetail("show", "megatron-22b")
    assert ran.returncode == 2
    assert ran.stderr == ("dovetail: 'megatron-22b' names a model and a plan; specify --kind model or --kind plan\n")
    assert dovetail("show", "megatron-22b", "--kind", "plan").stdout.startswith("plan megatron-22b\n")


def test_a_misspelt_name_is_looked_for_in_every_catalogue(dovetail):
    assert "did you mean h100-sxm" in dovetail("show", "h100-smx").stderr
    assert "did you mean dgx-h100" in dovetail("show", "dgxh100").stderr


def test_a_chip_in_a_file_is_known_by_its_keys(dovetail, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("base: h100-sxm\nname: mine\nhbm: {capacity: 96 GiB}\n", encoding="utf-8")
    ran = dovetail("show", file)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("chip mine: NVIDIA")
    assert "given in mine.yaml" in ran.stdout


def test_a_plan_in_a_file_points_to_simulate(dovetail, tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("tp: 8\n", encoding="utf-8")
    ran = dovetail("show", file)
    assert ran.returncode == 2
    assert f"dovetail simulate --model NAME --cluster NAME --plan {file}" in ran.stderr
    assert str(file) in ran.stderr


def test_a_cluster_of_ones_own_is_shown_with_the_figures_of_its_chip(dovetail):
    said = json.loads(dovetail("show", "examples/my-cluster.yaml", "--json").stdout)
    assert [entry["kind"] for entry in said["entries"]] == ["model", "cluster", "chip", "plan"]
    told = dovetail("show", "examples/my-cluster.yaml").stdout
    assert "chip h100-large" in told
    assert "hbm.capacity_bytes" in told


def test_a_model_is_shown_with_the_batch_and_length_it_takes_by_default(dovetail):
    told = dovetail("show", "llama3-8b").stdout
    assert "8,192 tokens by default" in told
    assert "1,024 " in told
