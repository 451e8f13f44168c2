"""What frameworks' own parsers say to launch texts: run by `launch_check` with the Python of an environment of its own.

Reads a list of texts as JSON from standard input and writes what became of each. It imports nothing of Dovetail.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def torchtitan(text: dict[str, Any]) -> str:
    """TorchTitan's ConfigManager, which builds the job's configuration and validates it."""
    from torchtitan.config.manager import ConfigManager

    words = text["command"][text["command"].index("torchtitan.train") + 1 :]
    note = ""
    if not text["is_known"]:  # a model that one must write a function for: one of its own stands in
        words = ["--module", "llama3", "--config", "llama3_8b", *words[4:]]
        note = "with llama3_8b in place of a configuration of one's own"
    ConfigManager().parse_args(words)
    return note


def accelerate(text: dict[str, Any]) -> str:
    """The parser of `accelerate launch` and its validation of the configuration file."""
    import yaml
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / text["config_name"]
        file.write_text(text["config"], encoding="utf-8")
        words = [str(file) if word == text["config_name"] else word for word in text["command"][2:]]
        words = ["0" if word == "$NODE_RANK" else word.replace("$MASTER_PORT", "29500") for word in words]
        parser = launch_command_parser()
        known = {action.dest for action in parser._actions}
        sections = (of for of in yaml.safe_load(text["config"]).values() if isinstance(of, dict))
        unknown = {key for section in sections for key in section} - known
        assert not unknown, f"accelerate launch has no {sorted(unknown)}"
        args = parser.parse_args(words)
        found, *_ = _validate_launch_command(args)
        assert found.use_fsdp
        assert int(found.fsdp_version) == 2
    return ""


def deepspeed(text: dict[str, Any]) -> str:
    """DeepSpeedConfig, which reads the JSON and checks batch sizes against the ranks of data parallelism."""
    from deepspeed import comm
    from deepspeed.runtime.config import DeepSpeedConfig

    comm.get_rank = lambda *_: 0  # nothing is started, so that no process has a rank
    ranks = SimpleNamespace(get_data_parallel_world_size=lambda: text["data_parallel"])
    DeepSpeedConfig(json.loads(text["config"]), mpu=ranks)
    return "ds_config.json; arguments of Megatron-DeepSpeed are not on PyPI" if text["is_megatron"] else ""


def megatron(text: dict[str, Any]) -> str:
    """Megatron Core's TransformerConfig, OptimizerConfig and DistributedDataParallelConfig, built from the fields."""
    import torch
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer.enums import AttnBackend
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig

    said = {
        section: {
            key.partition(".")[2]: _value(value)
            for key, value in text["overrides"].items()
            if key.startswith(f"{section}.")
        }
        for section in ("model", "optimizer", "ddp")
    }
    of_bridge = {"seq_length", "vocab_size", "share_embeddings_and_output_weights", "position_embedding_type",
                 "rotary_percent", "rotary_base"}  # fmt: skip
    kind = MLATransformerConfig if said["model"].get("multi_latent_attention") else TransformerConfig
    known = {field.name for field in dataclasses.fields(kind)}
    unknown = set(said["model"]) - known - of_bridge
    assert not unknown, f"TransformerConfig has no {sorted(unknown)}"
    fields = {key: value for key, value in said["model"].items() if key in known}
    fields["attention_backend"] = AttnBackend[fields["attention_backend"]]
    for key in ("moe_layer_freq", "window_attn_skip_freq", "window_size"):
        if isinstance(fields.get(key), str):
            fields[key] = eval(fields[key])
    fields["pipeline_dtype"] = torch.bfloat16  # as Megatron-LM sets it from --bf16
    kind(**fields)
    for name, section in ((OptimizerConfig, "optimizer"), (DistributedDataParallelConfig, "ddp")):
        names = {field.name for field in dataclasses.fields(name)}
        assert set(said[section]) <= names, f"{name.__name__} has no {sorted(set(said[section]) - names)}"
    return "fields of Megatron Core; arguments.py of Megatron-LM is not on PyPI"


def maxtext(text: dict[str, Any]) -> str:
    """Keys of MaxText's base.yml and names of its model files."""
    import yaml

    folder = Path(text["maxtext"]) / "maxtext" / "configs"
    known = yaml.safe_load((folder / "base.yml").read_text(encoding="utf-8"))
    said = dict(word.split("=", 1) for word in text["command"] if "=" in word)
    unknown = set(said) - set(known)
    assert not unknown, f"base.yml has no {sorted(unknown)}"
    if "model_name" in said:
        assert (folder / "models" / f"{said['model_name']}.yml").exists(), f"no model file of {said['model_name']}"
    return "keys of base.yml and names of models; its own checks need a TPU's JAX"


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except json.JSONDecodeError:
        return word.strip("[]").split(",") if word.startswith("[") else word


PARSERS = {
    "torchtitan": (torchtitan, "torchtitan"),
    "fsdp2": (accelerate, "accelerate"),
    "deepspeed": (deepspeed, "deepspeed"),
    "megatron-lm": (megatron, "megatron-core"),
    "megatron-bridge": (megatron, "megatron-core"),
    "maxtext": (maxtext, "maxtext"),
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    found = []
    for text in json.load(sys.stdin):
        parser, package = PARSERS[text["framework"]]
        answer: dict[str, Any] = {"package": package}
        try:
            version = text["maxtext_version"] if package == "maxtext" else importlib.metadata.version(package)
            answer |= {"version": version, "note": parser(text), "accepted": True}
        except (Exception, SystemExit) as error:
            answer |= {"accepted": False, "note": f"{type(error).__name__}: {str(error)[:300]}"}
        found.append(answer)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
