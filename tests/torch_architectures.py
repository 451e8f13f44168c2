"""Architectures of transformers that people train, each as a configuration: tiny here, and without `tiny` as released.

What a configuration leaves out is the default of transformers, which is a released model of the family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SEQ = 32  # positions of a tiny sample
IMAGE = {"image_size": 32, "patch_size": 8}
HEADS: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 128,
    "max_position_embeddings": 64,
}
GROUPED = HEADS | {"num_key_value_heads": 2}
TOWER = {name: HEADS[name] for name in list(HEADS)[:4]} | IMAGE
GPT = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 64}
PAIR = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96,
    "vocab_size": 128,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = {"kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4}
DEEPSEEK = LATENT | {
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 48,
    "n_shared_experts": 1,
    "q_lora_rank": 32,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
STATE = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1, "mamba_chunk_size": 16}
WINDOW = {"sliding_window": 16}
MIXED = {"layer_types": ["sliding_attention", "full_attention"]}
LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One model class; `seq` is 0 where samples have no positions. `refusal` is what a capture of it says."""

    model_type: str
    kind: str
    tiny: Mapping[str, Any]
    seq: int = SEQ
    released: Mapping[str, Any] = field(default_factory=dict)  # beside the defaults
    refusal: str = ""
    long_refusal: str = ""  # at its released size alone
    windows: tuple[int, ...] = ()  # of its layers, those that have one

    @property
    def tiny_config(self) -> dict[str, Any]:
        return {"model_type": self.model_type, "architectures": [self.kind], **self.tiny}

    @property
    def released_config(self) -> dict[str, Any]:
        return {"model_type": self.model_type, "architectures": [self.kind], **self.released}


def _text(model_type: str, kind: str, tiny: Mapping[str, Any], **more: Any) -> Architecture:
    return Architecture(model_type=model_type, kind=kind, tiny=tiny, **more)


LOOP = "as a loop over positions does"
DECODERS = {
    "llama": _text("llama", "LlamaForCausalLM", GROUPED),
    "llama4": _text(
        "llama4_text",
        "Llama4ForCausalLM",
        GROUPED
        | {"head_dim": 16, "intermediate_size_mlp": 96, "num_local_experts": 8, "num_experts_per_tok": 1}
        | {"interleave_moe_layer_step": 1},
    ),
    "mistral": _text("mistral", "MistralForCausalLM", GROUPED | WINDOW, windows=(16,)),
    "qwen2": _text("qwen2", "Qwen2ForCausalLM", GROUPED),
    "qwen3": _text("qwen3", "Qwen3ForCausalLM", GROUPED | {"head_dim": 32}),
    "gemma": _text("gemma", "GemmaForCausalLM", GROUPED | {"head_dim": 16}),
    "gemma2": _text("gemma2", "Gemma2ForCausalLM", GROUPED | WINDOW | {"head_dim": 16}, windows=(16,)),
    "gemma3": _text("gemma3_text", "Gemma3ForCausalLM", GROUPED | WINDOW | MIXED | {"head_dim": 16}, windows=(16,)),
    "phi": _text("phi", "PhiForCausalLM", HEADS),
    "phi3": _text("phi3", "Phi3ForCausalLM", GROUPED | {"pad_token_id": 0}),
    "gpt2": _text("gpt2", "GPT2LMHeadModel", GPT),
    "gpt-neo": _text(
        "gpt_neo",
        "GPTNeoForCausalLM",
        {"hidden_size": 64, "num_layers": 2, "num_heads": 4, "vocab_size": 128, "max_position_embeddings": 64}
        | {"attention_types": [[["global", "local"], 1]], "window_size": 16},
    ),
    "gpt-neox": _text("gpt_neox", "GPTNeoXForCausalLM", HEADS),
    "gptj": _text("gptj", "GPTJForCausalLM", GPT | {"rotary_dim": 8}),
    "opt": _text("opt", "OPTForCausalLM", HEADS | {"ffn_dim": 96, "word_embed_proj_dim": 64}),
    "bloom": _text(
        "bloom",
        "BloomForCausalLM",
        {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128},
        released={"hidden_size": 4096, "n_layer": 30, "n_head": 32},
    ),
    "falcon": _text("falcon", "FalconForCausalLM", {key: HEADS[key] for key in HEADS if key != "intermediate_size"}),
    "mpt": _text(
        "mpt", "MptForCausalLM", {"d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 128, "max_seq_len": 64}
    ),
    "olmo2": _text("olmo2", "Olmo2ForCausalLM", GROUPED),
    "cohere": _text("cohere", "CohereForCausalLM", GROUPED),
    "granite": _text("granite", "GraniteForCausalLM", GROUPED),
    "starcoder2": _text("starcoder2", "Starcoder2ForCausalLM", GROUPED),
    "stablelm": _text("stablelm", "StableLmForCausalLM", GROUPED),
}
MIXTURES = {
    "mixtral": _text("mixtral", "MixtralForCausalLM", GROUPED | LOCAL),
    "qwen2-moe": _text("qwen2_moe", "Qwen2MoeForCausalLM", GROUPED | EXPERTS | {"shared_expert_intermediate_size": 96}),
    "qwen3-moe": _text("qwen3_moe", "Qwen3MoeForCausalLM", GROUPED | EXPERTS | {"head_dim": 32}),
    "phimoe": _text("phimoe", "PhimoeForCausalLM", GROUPED | LOCAL),
    "olmoe": _text("olmoe", "OlmoeForCausalLM", GROUPED | {"num_experts": 8, "num_experts_per_tok": 2}),
    "granitemoe": _text("granitemoe", "GraniteMoeForCausalLM", GROUPED | LOCAL),
    "deepseek-v2": _text(
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        HEADS | DEEPSEEK | {"n_group": 1},
        released={"num_experts_per_tok": 6, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 1408},
    ),
    "deepseek-v3": _text("deepseek_v3", "DeepseekV3ForCausalLM", HEADS | DEEPSEEK),
    "deepseek-v3.2": _text(
        "deepseek_v32",
        "DeepseekV32ForCausalLM",
        HEADS | DEEPSEEK | {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 16},
        windows=(16,),
    ),
    "gpt-oss": _text(
        "gpt_oss", "GptOssForCausalLM", GROUPED | LOCAL | WINDOW | MIXED | {"head_dim": 16}, windows=(16,)
    ),
}
HYBRIDS = {
    "mamba": _text(
        "mamba",
        "MambaForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, "state_size": 16, "time_step_rank": 4},
        long_refusal=LOOP,
    ),
    "mamba2": _text(
        "mamba2",
        "Mamba2ForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 128, "state_size": 16, "num_heads": 8}
        | {"head_dim": 16, "n_groups": 1, "chunk_size": 16, "time_step_limit": [0.0, {"__float__": "Infinity"}]},
    ),
    "jamba": _text(
        "jamba",
        "JambaForCausalLM",
        GROUPED
        | {"num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8, "mamba_dt_rank": 4}
        | {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
        long_refusal=LOOP,
    ),
    "bamba": _text("bamba", "BambaForCausalLM", GROUPED | STATE | {"attn_layer_indices": [1]}),
    "falcon-h1": _text(
        "falcon_h1",
        "FalconH1ForCausalLM",
        GROUPED | STATE | {"mamba_d_ssm": 64, "mamba_n_heads": 4, "head_dim": 16},
    ),
    "nemotron-h": _text(
        "nemotron_h",
        "NemotronHForCausalLM",
        GROUPED
        | {"hybrid_override_pattern": "M*", "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 16}
        | {"n_groups": 1, "chunk_size": 16, "head_dim": 16, "time_step_limit": [0.0, {"__float__": "Infinity"}]},
    ),
    "rwkv": _text(
        "rwkv",
        "RwkvForCausalLM",
        {
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "vocab_size": 128,
            "context_length": 64,
            "attention_hidden_size": 64,
        },
        long_refusal=LOOP,
    ),
    "minimax": _text("minimax", "MiniMaxForCausalLM", GROUPED | LOCAL | LINEAR | {"block_size": 16}),
    "qwen3-next": _text(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        GROUPED
        | EXPERTS
        | LINEAR
        | {"head_dim": 16, "shared_expert_intermediate_size": 48, "linear_num_key_heads": 2}
        | {"linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16},
        long_refusal=LOOP,
    ),
    "kimi-linear": _text(
        "kimi_linear",
        "KimiLinearForCausalLM",
        HEADS
        | LATENT
        | TOKENS
        | LINEAR
        | {"num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
        | {"linear_head_dim": 16, "linear_num_heads": 4},
        long_refusal=LOOP,
    ),
}
ENCODERS = {
    "bert": _text("bert", "BertForMaskedLM", HEADS),
    "roberta": _text("roberta", "RobertaForMaskedLM", HEADS | {"pad_token_id": 1}),
    "deberta": _text(
        "deberta-v2",
        "DebertaV2ForMaskedLM",
        HEADS
        | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8}
        | {"share_att_key": True, "norm_rel_ebd": "layer_norm"},
        released={"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 256}
        | {"share_att_key": True, "norm_rel_ebd": "layer_norm"},
    ),
    "electra": _text("electra", "ElectraForMaskedLM", HEADS | {"embedding_size": 64}),
    "distilbert": _text(
        "distilbert",
        "DistilBertForMaskedLM",
        {"dim": 64, "hidden_dim": 96, "n_layers": 2, "n_heads": 4, "vocab_size": 128, "max_position_embeddings": 64},
    ),
    "modernbert": _text(
        "modernbert",
        "ModernBertForMaskedLM",
        HEADS | TOKENS | {"local_attention": 16, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
        windows=(8,),
    ),
    "albert": _text("albert", "AlbertForMaskedLM", HEADS | {"embedding_size": 32}),
}
PAIRS = {
    "t5": _text(
        "t5",
        "T5ForConditionalGeneration",
        {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 128},
    ),
    "bart": _text("bart", "BartForConditionalGeneration", PAIR | {"max_position_embeddings": 64}),
    "whisper": _text(
        "whisper",
        "WhisperForConditionalGeneration",
        PAIR
        | TOKENS
        | {"max_source_positions": 32, "max_target_positions": 64, "num_mel_bins": 16, "decoder_start_token_id": 1},
    ),
}
VISION = {
    "vit": _text("vit", "ViTForImageClassification", TOWER, seq=0),
    "dinov2": _text("dinov2", "Dinov2ForImageClassification", TOWER, seq=0),
    "swin": _text(
        "swin",
        "SwinForImageClassification",
        {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "image_size": 32, "patch_size": 2, "window_size": 4},
        seq=0,
    ),
    "convnext": _text(
        "convnext",
        "ConvNextForImageClassification",
        {"hidden_sizes": [16, 32], "depths": [2, 2], "num_stages": 2, "image_size": 32, "patch_size": 4},
        seq=0,
    ),
    "clip": _text(
        "clip",
        "CLIPModel",
        {"projection_dim": 64, "text_config": HEADS | {"eos_token_id": 2}, "vision_config": TOWER},
    ),
    "siglip": _text("siglip", "SiglipModel", {"text_config": HEADS, "vision_config": TOWER}),
    "llava": _text(
        "llava",
        "LlavaForConditionalGeneration",
        {
            "text_config": {"model_type": "llama", **GROUPED},
            "vision_config": {"model_type": "clip_vision_model", **TOWER},
            "image_token_id": 127,
        },
    ),
    "qwen2.5-vl": _text(
        "qwen2_5_vl",
        "Qwen2_5_VLForConditionalGeneration",
        {
            "text_config": GROUPED
            | {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e6}},
            "vision_config": {
                "depth": 2,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 64,
                "patch_size": 8,
                "spatial_merge_size": 2,
                "window_size": 32,
                "fullatt_block_indexes": [1],
            },
            "image_token_id": 127,
            "video_token_id": 126,
            "vision_start_token_id": 125,
            "vision_end_token_id": 124,
        },
        seq=320,
        refusal="model.visual asks for aten::index",
    ),
}
ARCHITECTURES = {**DECODERS, **MIXTURES, **HYBRIDS, **ENCODERS, **PAIRS, **VISION}
