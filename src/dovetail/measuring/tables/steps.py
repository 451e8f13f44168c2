"""Small training steps that wait for the host: how fast Python and PyTorch's dispatcher are on this machine.

What the host takes for an operator, a view and a call of a module is not seen apart from the code that calls them: in a
bare loop they take a fraction of what they take in a model. So whole steps of models are timed, at sizes where the
device waits for the host.
"""

from __future__ import annotations

from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredTable, one_by_one, tables, words
from dovetail.measuring.torch_gpu import has_module

COLUMNS = (
    *("model", "batch", "seq", "mode", "recompute", "amp", "params", "attn"),
    *("iter_ms", "iter_ms_min", "fwd_ms", "peak_gib", "reserved_gib"),
)
NUM_KEYS = 6
FILE, CASES_FILE = "steps.csv", "steps_cases.py"
CONFIGS: dict[str, dict[str, Any]] = {
    "bert-base": {
        "architectures": ["BertForMaskedLM"], "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512,
    },
    "gpt2-small": {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
        "vocab_size": 50257, "n_positions": 1024,
    },
    "llama-0.5b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
        "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 32000,
        "max_position_embeddings": 4096, "tie_word_embeddings": False,
    },
}  # fmt: skip


def rows(_gpu: Any) -> tuple[Key, ...]:
    sizes = (("bert-base", 8, 128), ("gpt2-small", 2, 256), ("llama-0.5b", 1, 512), ("llama-0.5b", 2, 1024))
    return tuple(words(name, batch, seq, "eager", 0, 0) for name, batch, seq in sizes)


def measure(gpu: Any, key: Key) -> tuple[str, ...]:
    from dovetail.measuring.torch_steps import measured_case

    name, batch, seq = key[0], int(key[1]), int(key[2])
    return measured_case(gpu, CONFIGS[name], name, batch=batch, seq=seq).cells


def _why_not(_gpu: Any) -> str:
    return "" if has_module("transformers") else "models to step with are those of transformers, which is not installed"


tables.register("steps")(
    MeasuredTable(
        group="steps",
        file=FILE,
        columns=COLUMNS,
        num_keys=NUM_KEYS,
        rows=rows,
        measure=one_by_one(measure),
        why_not=_why_not,
        row_s=6.0,
        num_quick=2,
    )
)
