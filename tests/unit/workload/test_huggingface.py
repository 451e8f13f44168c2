"""Released configurations give the released parameter counts; everything else is refused in one line."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.workload.graph import Phase
from dovetail.workload.huggingface import model_from_config, readers
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.operators import code_of
from dovetail.workload.transformer import Transformer

Config = dict[str, Any]

LLAMA_3_8B: Config = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 500000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.0.dev0",
    "use_cache": True,
    "vocab_size": 128256,
}
LLAMA_2_7B: Config = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "vocab_size": 32000,
}
MISTRAL_7B: Config = {
    "architectures": ["MistralForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.34.0.dev0",
    "use_cache": True,
    "vocab_size": 32000,
}
MIXTRAL_8X7B: Config = MISTRAL_7B | {
    "architectures": ["MixtralForCausalLM"],
    "attention_dropout": 0.0,
    "model_type": "mixtral",
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
    "output_router_logits": False,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.02,
    "sliding_window": None,
}
QWEN_2_5_7B: Config = {
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "initializer_range": 0.02,
    "intermediate_size": 18944,
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "model_type": "qwen2",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.1",
    "use_cache": True,
    "use_mrope": False,
    "use_sliding_window": False,
    "vocab_size": 152064,
}
QWEN_1_5_MOE_A2_7B: Config = {
    "architectures": ["Qwen2MoeForCausalLM"],
    "attention_dropout": 0.0,
    "decoder_sparse_step": 1,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 5632,
    "max_position_embeddings": 8192,
    "max_window_layers": 21,
    "model_type": "qwen2_moe",
    "moe_intermediate_size": 1408,
    "norm_topk_prob": False,
    "num_attention_heads": 16,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 24,
    "num_key_value_heads": 16,
    "output_router_logits": False,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "router_aux_loss_coef": 0.001,
    "shared_expert_intermediate_size": 5632,
    "sliding_window": 32768,
    "tie_word_embeddings": False,
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN_3_8B: Config = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "max_window_layers": 36,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN_3_30B_A3B: Config = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
GPT_NEOX_20B: Config = {
    "architectures": ["GPTNeoXForCausalLM"],
    "attention_probs_dropout_prob": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "hidden_act": "gelu_fast",
    "hidden_dropout_prob": 0,
    "hidden_size": 6144,
    "initializer_range": 0.02,
    "intermediate_size": 24576,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048,
    "model_type": "gpt_neox",
    "num_attention_heads": 64,
    "num_hidden_layers": 44,
    "rotary_emb_base": 10000,
    "rotary_pct": 0.25,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "use_cache": True,
    "use_parallel_residual": True,
    "vocab_size": 50432,
}
OPT_1_3B: Config = {
    "_remove_final_layer_norm": False,
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "do_layer_norm_before": True,
    "dropout": 0.1,
    "eos_token_id": 2,
    "ffn_dim": 8192,
    "hidden_size": 2048,
    "init_std": 0.02,
    "layerdrop": 0.0,
    "max_position_embeddings": 2048,
    "model_type": "opt",
    "num_attention_heads": 32,
    "num_hidden_layers": 24,
    "pad_token_id": 1,
    "prefix": "</s>",
    "torch_dtype": "float16",
    "use_cache": True,
    "vocab_size": 50272,
    "word_embed_proj_dim": 2048,
}
OPT_350M: Config = OPT_1_3B | {
    "do_layer_norm_before": False,
    "ffn_dim": 4096,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "word_embed_proj_dim": 512,
}
GPT2: Config = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 50257,
}
BERT_BASE_UNCASED: Config = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
T5_LARGE: Config = {
    "architectures": ["T5WithLMHeadModel"],
    "d_ff": 4096,
    "d_kv": 64,
    "d_model": 1024,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 16,
    "num_layers": 24,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"early_stopping": True, "num_beams": 4}},
    "vocab_size": 32128,
}
T5_1_1_LARGE: Config = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 2816,
    "d_kv": 64,
    "d_model": 1024,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "model_type": "t5",
    "num_decoder_layers": 24,
    "num_heads": 16,
    "num_layers": 24,
    "relative_attention_num_buckets": 32,
    "tie_word_embeddings": False,
    "vocab_size": 32128,
}
GEMMA_7B: Config = {
    "architectures": ["GemmaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": None,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "max_position_embeddings": 8192,
    "model_type": "gemma",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 16,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 256000,
}
GEMMA_2_9B: Config = {
    "architectures": ["Gemma2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": 50.0,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": 30.0,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 3584,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "model_type": "gemma2",
    "num_attention_heads": 16,
    "num_hidden_layers": 42,
    "num_key_value_heads": 8,
    "query_pre_attn_scalar": 256,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "sliding_window_size": 4096,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 256000,
}
PHI_2: Config = {
    "architectures": ["PhiForCausalLM"],
    "attention_dropout": 0.0,
    "embd_pdrop": 0.0,
    "hidden_act": "gelu_new",
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 2048,
    "model_type": "phi",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "partial_rotary_factor": 0.4,
    "qk_layernorm": False,
    "resid_pdrop": 0.1,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 51200,
}
PHI_3_MINI_4K: Config = {
    "architectures": ["Phi3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"},
    "embd_pdrop": 0.0,
    "hidden_act": "silu",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "max_position_embeddings": 4096,
    "model_type": "phi3",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "original_max_position_embeddings": 4096,
    "resid_pdrop": 0.0,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "sliding_window": 2047,
    "tie_word_embeddings": False,
    "vocab_size": 32064,
}
DEEPSEEK_V2_LITE: Config = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "aux_loss_alpha": 0.001,
    "first_k_dense_replace": 1,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "model_type": "deepseek_v2",
    "moe_intermediate_size": 1408,
    "moe_layer_freq": 1,
    "n_group": 1,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "num_attention_heads": 16,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 27,
    "num_key_value_heads": 16,
    "pretraining_tp": 1,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_scaling": {"factor": 40, "type": "yarn"},
    "routed_scaling_factor": 1.0,
    "scoring_func": "softmax",
    "seq_aux": True,
    "topk_group": 1,
    "topk_method": "greedy",
    "v_head_dim": 128,
    "vocab_size": 102400,
}
DEEPSEEK_V3: Config = DEEPSEEK_V2_LITE | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "ep_size": 1,
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048,
    "n_group": 8,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "vocab_size": 129280,
}

DEEPSEEK_V3_QUANTISED: Config = DEEPSEEK_V3 | {
    "quantization_config": {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
    },
    "transformers_version": "4.33.1",
}
DEEPSEEK_MOE_16B: Config = {
    "architectures": ["DeepseekForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekConfig"},
    "aux_loss_alpha": 0.001,
    "bos_token_id": 100000,
    "eos_token_id": 100001,
    "first_k_dense_replace": 1,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 10944,
    "max_position_embeddings": 4096,
    "model_type": "deepseek",
    "moe_intermediate_size": 1408,
    "moe_layer_freq": 1,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "norm_topk_prob": False,
    "num_attention_heads": 16,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 28,
    "num_key_value_heads": 16,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000,
    "scoring_func": "softmax",
    "seq_aux": True,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_cache": True,
    "vocab_size": 102400,
}
QWEN_7B: Config = {
    "architectures": ["QWenLMHeadModel"],
    "attn_dropout_prob": 0.0,
    "auto_map": {"AutoConfig": "configuration_qwen.QWenConfig"},
    "bf16": False,
    "emb_dropout_prob": 0.0,
    "fp16": False,
    "fp32": False,
    "hidden_size": 4096,
    "initializer_range": 0.02,
    "intermediate_size": 22016,
    "kv_channels": 128,
    "layer_norm_epsilon": 1e-06,
    "max_position_embeddings": 32768,
    "model_type": "qwen",
    "no_bias": True,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "onnx_safe": None,
    "rotary_emb_base": 10000,
    "rotary_pct": 1.0,
    "scale_attn_weights": True,
    "seq_length": 8192,
    "tie_word_embeddings": False,
    "tokenizer_class": "QWenTokenizer",
    "use_cache": True,
    "use_dynamic_ntk": True,
    "use_flash_attn": "auto",
    "use_logn_attn": True,
    "vocab_size": 151936,
}
GEMMA_3_1B: Config = {
    "architectures": ["Gemma3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "query_pre_attn_scalar": 256,
    "rope_local_base_freq": 10000,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "use_cache": True,
    "vocab_size": 262144,
}
MT5_SMALL: Config = {
    "architectures": ["MT5ForConditionalGeneration"],
    "d_ff": 1024,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "mt5",
    "num_decoder_layers": 8,
    "num_heads": 6,
    "num_layers": 8,
    "relative_attention_num_buckets": 32,
    "tie_word_embeddings": False,
    "tokenizer_class": "T5Tokenizer",
    "vocab_size": 250112,
}
PHI_3_5_MOE: Config = {
    "architectures": ["PhiMoEForCausalLM"],
    "attention_bias": True,
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "hidden_dropout": 0.0,
    "hidden_size": 4096,
    "input_jitter_noise": 0.01,
    "intermediate_size": 6400,
    "lm_head_bias": True,
    "max_position_embeddings": 131072,
    "model_type": "phimoe",
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "original_max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "rope_scaling": {"type": "longrope"},
    "router_aux_loss_coef": 0.0,
    "router_jitter_noise": 0.01,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "vocab_size": 32064,
}

# Counts of the weights as released on Hugging Face, tied ones once; DeepSeek-V3's without its multi-token module.
RELEASED: dict[str, tuple[Config, int]] = {
    "llama-2-7b": (LLAMA_2_7B, 6_738_415_616),
    "llama-3-8b": (LLAMA_3_8B, 8_030_261_248),
    "mistral-7b-v0.1": (MISTRAL_7B, 7_241_732_096),
    "mixtral-8x7b": (MIXTRAL_8X7B, 46_702_792_704),
    "qwen2.5-7b": (QWEN_2_5_7B, 7_615_616_512),
    "qwen1.5-moe-a2.7b": (QWEN_1_5_MOE_A2_7B, 14_315_784_192),
    "qwen3-8b": (QWEN_3_8B, 8_190_735_360),
    "qwen3-30b-a3b": (QWEN_3_30B_A3B, 30_532_122_624),
    "gpt-neox-20b": (GPT_NEOX_20B, 20_554_567_680),
    "opt-1.3b": (OPT_1_3B, 1_315_758_080),
    "opt-350m": (OPT_350M, 331_196_416),
    "gpt2": (GPT2, 124_439_808),
    "bert-base-uncased": (BERT_BASE_UNCASED, 110_106_428),
    "t5-large": (T5_LARGE, 737_668_096),
    "t5-v1.1-large": (T5_1_1_LARGE, 783_150_080),
    "gemma-7b": (GEMMA_7B, 8_537_680_896),
    "gemma-2-9b": (GEMMA_2_9B, 9_241_705_984),
    "phi-2": (PHI_2, 2_779_683_840),
    "phi-3-mini-4k": (PHI_3_MINI_4K, 3_821_079_552),
    "deepseek-v2-lite": (DEEPSEEK_V2_LITE, 15_706_484_224),
    "deepseek-v3": (DEEPSEEK_V3, 671_026_419_200),
    "deepseek-v3-fp8": (DEEPSEEK_V3_QUANTISED, 671_026_419_200),
    "deepseek-moe-16b": (DEEPSEEK_MOE_16B, 16_375_728_128),
    "qwen-7b": (QWEN_7B, 7_721_324_544),
    "gemma-3-1b": (GEMMA_3_1B, 999_885_952),
    "mt5-small": (MT5_SMALL, 300_176_768),
    "phi-3.5-moe": (PHI_3_5_MOE, 41_873_153_344),
}
SMALL = Sample(batch=1, seq=128, dtype="bf16")


def transformer_of(config: Config) -> Transformer:
    architecture = model_from_config(config, "x").architecture
    assert isinstance(architecture, Transformer)
    return architecture


def error_of(config: Any) -> DovetailError:
    with pytest.raises(DovetailError) as caught:
        model_from_config(config, "x")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return caught.value


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_config_gives_the_released_parameter_count(name):
    config, num_parameters = RELEASED[name]
    assert model_from_config(config, name).forward(SMALL).num_parameters == num_parameters


@pytest.mark.parametrize(
    ("registered", "config"),
    [
        ("llama2-7b", LLAMA_2_7B),
        ("llama3-8b", LLAMA_3_8B),
        ("mixtral-8x7b", MIXTRAL_8X7B),
        ("deepseek-v3", DEEPSEEK_V3),
        ("opt-350m", OPT_350M),
        ("opt-1.3b", OPT_1_3B),
        ("bert-base", BERT_BASE_UNCASED),
        ("t5-large", T5_LARGE),
    ],
)
def test_the_catalogue_and_the_released_config_describe_one_network(registered, config):
    assert model_from_config(config, registered).architecture == models[registered]().architecture


def test_every_model_type_has_a_released_config_to_be_held_to():
    assert {config["model_type"] for config, _ in RELEASED.values()} == set(readers.names())


def test_the_model_is_named_as_asked_and_says_what_it_does_not_know():
    model = model_from_config(MISTRAL_7B, "my-mistral")
    assert model.name == "my-mistral"
    assert model.family == "mistral"
    assert model.published_parameters == 0
    assert not model.is_exact


def test_a_sample_is_as_long_as_the_config_allows_up_to_what_runs_commonly_use():
    assert model_from_config(LLAMA_2_7B, "x").seq == 4096
    assert model_from_config(LLAMA_2_7B, "x").notes == ()
    assert model_from_config(LLAMA_3_8B, "x").seq == 8192
    assert model_from_config(LLAMA_3_8B, "x").notes == ()
    long = model_from_config(QWEN_2_5_7B, "x")
    assert long.seq == 8192
    assert long.notes == ("the config allows 131,072 positions; 8,192 unless seq says otherwise",)


def test_released_weights_in_another_format_are_trained_all_the_same_and_that_is_told():
    model = model_from_config(DEEPSEEK_V3_QUANTISED, "x")
    assert model.architecture == model_from_config(DEEPSEEK_V3, "x").architecture
    assert model.notes[:2] == (
        "the multi-token-prediction module is left out",
        "released weights are quantised (fp8); trained here in the workload's precision",
    )


@pytest.mark.parametrize(
    ("quantised", "told"),
    [
        ({"quant_method": "compressed-tensors"}, ("released weights are quantised (compressed-tensors); trained",)),
        ({"bits": 4}, ("released weights are quantised; trained",)),
        ({"quant_method": "a\nb"}, ("released weights are quantised; trained",)),
        ({}, ()),
        (None, ()),
    ],
)
def test_how_weights_were_quantised_is_named_where_it_is_known(quantised, told):
    notes = model_from_config(LLAMA_3_8B | {"quantization_config": quantised}, "x").notes
    assert tuple(note[: len(start)] for note, start in zip(notes, told, strict=True)) == told


def test_a_quantisation_that_is_no_mapping_is_refused():
    error = error_of(LLAMA_3_8B | {"quantization_config": "fp8"})
    assert isinstance(error, InvalidInput)
    assert error.where == "quantization_config"


def test_without_a_further_module_nothing_is_told_of_it():
    assert "multi-token" not in " ".join(model_from_config(DEEPSEEK_V2_LITE, "x").notes)


@pytest.mark.parametrize(
    "key",
    [
        "unsloth_version",
        "unsloth_fixed",
        "is_llama_config",
        "transformers_version",
        "_name_or_path",
        "auto_map",
        "torch_dtype",
        "dtype",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "mask_token_id",
        "initializer_range",
        "pretraining_tp",
        "rope_interleaved",
        "_attn_implementation_autoset",
        "_commit_hash",
        "forced_eos_token_id",
    ],
)
def test_a_key_that_only_describes_software_is_no_matter(key):
    assert transformer_of(LLAMA_3_8B | {key: "2025.1"}) == transformer_of(LLAMA_3_8B)


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        (LLAMA_3_8B, "GPT2LMHeadModel"),
        (LLAMA_3_8B, "MistralForCausalLM"),
        (QWEN_2_5_7B, "Qwen2MoeForCausalLM"),
        (GPT2, "LlamaForCausalLM"),
        (T5_LARGE, "MT5ForConditionalGeneration"),
    ],
)
def test_a_class_of_another_network_than_the_model_type_is_refused(config, architecture):
    error = error_of(config | {"architectures": [architecture]})
    assert isinstance(error, InvalidInput)
    assert error.where == "architectures.0"
    assert architecture in error.message
    assert config["model_type"] in error.message


def test_reading_a_config_leaves_it_as_it_was():
    config = copy.deepcopy(GEMMA_2_9B)
    model_from_config(config, "x")
    assert config == GEMMA_2_9B


def test_absent_keys_take_the_defaults_of_their_family():
    assert transformer_of(LLAMA_2_7B).num_kv_heads == 32
    assert not transformer_of(LLAMA_2_7B).is_tied
    assert transformer_of(without(MISTRAL_7B, "num_key_value_heads")).num_kv_heads == 8
    assert transformer_of(MISTRAL_7B | {"num_key_value_heads": None}).num_kv_heads == 32
    assert transformer_of(without(MISTRAL_7B, "sliding_window")).window == 4096
    assert transformer_of(MISTRAL_7B | {"sliding_window": None}).window == 0
    assert transformer_of(GEMMA_7B).is_tied
    assert transformer_of(GPT2).ffn_width == 4 * 768
    assert transformer_of(GPT2 | {"n_inner": 1000}).ffn_width == 1000


def test_dropout_is_what_the_config_says():
    assert transformer_of(GPT2).has_dropout
    assert transformer_of(GPT2).has_attention_dropout
    assert transformer_of(OPT_1_3B).has_dropout
    assert not transformer_of(OPT_1_3B).has_attention_dropout
    assert not transformer_of(GPT2 | {"resid_pdrop": 0.0, "embd_pdrop": 0.0}).has_dropout
    assert not transformer_of(LLAMA_3_8B).has_dropout


def work_frac(config: Config, seq: int) -> float:
    layer = model_from_config(config, "x").forward(Sample(batch=1, seq=seq, dtype="bf16")).blocks[1]
    [share] = layer.ops.work_frac[layer.ops.kind == code_of("attention")]
    return float(share)


@pytest.mark.parametrize("seq", [1024, 4096])
def test_a_window_no_shorter_than_the_sequence_changes_nothing(seq):
    assert work_frac(MISTRAL_7B, seq) == 0.5


@pytest.mark.parametrize("seq", [4097, 8192, 32768])
def test_beyond_the_window_only_the_pairs_inside_it_are_worked_on(seq):
    pairs = sum(min(query + 1, 4096) for query in range(seq))
    assert work_frac(MISTRAL_7B, seq) == pytest.approx(pairs / seq**2, rel=1.5 / seq + 1e-9)


def test_a_window_in_every_other_layer_is_worth_half_of_it():
    whole = work_frac(MISTRAL_7B, 8192)
    assert work_frac(GEMMA_2_9B, 8192) == pytest.approx((whole + 0.5) / 2)


def test_layer_types_say_which_layers_have_the_window():
    kinds = {"all": ["sliding_attention"] * 42, "none": ["full_attention"] * 42}
    assert transformer_of(GEMMA_2_9B).window_frac == 0.5
    assert transformer_of(GEMMA_2_9B | {"layer_types": kinds["all"]}).window_frac == 1
    assert transformer_of(GEMMA_2_9B | {"layer_types": kinds["none"]}).window == 0
    odd = [*kinds["all"][:40], *kinds["none"][:2]]
    assert isinstance(error_of(GEMMA_2_9B | {"layer_types": odd}), NotModelled)
    assert isinstance(error_of(GEMMA_2_9B | {"layer_types": ["chunked_attention"] * 42}), NotModelled)
    assert isinstance(error_of(GEMMA_2_9B | {"layer_types": kinds["all"][:41]}), InvalidInput)


def test_all_but_the_last_of_every_six_layers_of_gemma_3_have_the_window():
    kinds = ["full_attention" if (layer + 1) % 6 == 0 else "sliding_attention" for layer in range(26)]
    assert transformer_of(GEMMA_3_1B).window_frac == pytest.approx(kinds.count("sliding_attention") / 26)
    written_out = without(GEMMA_3_1B, "sliding_window_pattern") | {"layer_types": kinds}
    assert transformer_of(written_out).window_frac == pytest.approx(22 / 26)
    assert transformer_of(GEMMA_3_1B | {"sliding_window_pattern": 1}).window == 0


def test_the_first_qwen_counts_gate_and_product_as_one_width():
    assert transformer_of(QWEN_7B).ffn_width == 11008
    assert model_from_config(QWEN_7B, "x").seq == 8192
    assert isinstance(error_of(QWEN_7B | {"no_bias": False}), NotModelled)


def test_mt5_is_gated_and_untied_where_the_config_does_not_say():
    bare = without(without(MT5_SMALL, "feed_forward_proj"), "tie_word_embeddings")
    assert transformer_of(bare) == transformer_of(MT5_SMALL)


def test_qwen_uses_its_window_only_when_told_to():
    assert transformer_of(QWEN_2_5_7B).window == 0
    on = QWEN_2_5_7B | {"use_sliding_window": True}
    assert transformer_of(on).window == 0
    assert transformer_of(on | {"max_window_layers": 0}).window == 131072
    error = error_of(on | {"max_window_layers": 14})
    assert isinstance(error, NotModelled)
    assert error.where == "max_window_layers"


def test_the_capped_scores_of_gemma_2_show_when_attention_is_not_fused():
    sample = Sample(batch=1, seq=128, dtype="bf16", attention="unfused")
    layer = model_from_config(GEMMA_2_9B, "x").forward(sample).blocks[1]
    forward = layer.ops.kind[layer.ops.phase == Phase.FORWARD]
    assert list(forward).count(code_of("tanh")) == 1


def without(config: Config, key: str) -> Config:
    return {k: v for k, v in config.items() if k != key}


@pytest.mark.parametrize("given_type", ["lama", "Mistral-7B", "gpt_neo", "qwen2_5_vl", "x" * 10_000])
def test_an_unknown_model_type_names_the_supported_and_calls_none_of_them_the_same(given_type):
    error = error_of(LLAMA_2_7B | {"model_type": given_type})
    assert isinstance(error, InvalidInput)
    assert error.where == "model_type"
    assert "did you mean" not in str(error)
    assert f"supported: {', '.join(readers.names())}" in str(error)


@pytest.mark.parametrize(("name", "config"), [(name, config) for name, (config, _) in RELEASED.items()])
def test_a_missing_width_or_depth_is_named(name, config):
    required = {"hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer", "num_layers", "vocab_size"}
    for key in sorted(required & set(config)):
        error = error_of(without(config, key))
        assert isinstance(error, InvalidInput)
        assert error.where == key
        assert "missing" in error.message


@pytest.mark.parametrize(
    "value", ["4096", -1, 0, 1.5, float("nan"), float("inf"), True, [4096], {"a": {"b": 1}}, 10**30, "x" * 10_000]
)
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "head_dim"])
def test_a_value_that_is_no_count_is_refused_at_its_key(key, value):
    error = error_of(LLAMA_3_8B | {key: value})
    assert isinstance(error, InvalidInput)
    assert error.where == key


def test_numbers_that_must_divide_each_other_are_both_shown():
    error = error_of(LLAMA_3_8B | {"num_key_value_heads": 5})
    assert str(error) == "num_key_value_heads=5 must divide num_attention_heads=32 (num_key_value_heads)"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"vision_config": {"hidden_size": 1024}}, "vision_config"),
        ({"text_config": {"model_type": "llama"}, "model_type": "llava"}, "text_config"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures.0"),
        ({"a_new_idea": 3}, "a_new_idea"),
        ({"add_cross_attention": True}, "add_cross_attention"),
    ],
)
def test_what_is_not_modelled_is_refused_and_not_ignored(changes, where):
    error = error_of(LLAMA_3_8B | changes)
    assert isinstance(error, NotModelled)
    assert error.where == where
    assert where.partition(".")[0] in error.message


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (BERT_BASE_UNCASED, "position_embedding_type", "relative_key"),
        (BERT_BASE_UNCASED, "is_decoder", True),
        (BERT_BASE_UNCASED, "hidden_act", "relu"),
        (T5_LARGE, "feed_forward_proj", "gated-relu"),
        (OPT_1_3B, "layerdrop", 0.1),
        (OPT_1_3B, "enable_bias", False),
        (PHI_2, "qk_layernorm", True),
        (QWEN_1_5_MOE_A2_7B, "decoder_sparse_step", 2),
        (QWEN_1_5_MOE_A2_7B, "mlp_only_layers", [3]),
        (DEEPSEEK_V3, "moe_layer_freq", 2),
        (DEEPSEEK_V3, "attention_bias", True),
        (GPT2, "reorder_and_upcast_attn", True),
    ],
)
def test_an_option_of_one_family_that_is_not_modelled_is_refused(config, key, value):
    error = error_of(config | {key: value})
    assert isinstance(error, NotModelled)
    assert error.where == key
    assert key in error.message


def test_the_first_layers_of_a_mixture_may_be_dense():
    assert transformer_of(QWEN_1_5_MOE_A2_7B | {"mlp_only_layers": [1, 0]}).num_dense_layers == 2


@pytest.mark.parametrize("config", [None, 3, "llama", [], [LLAMA_3_8B]])
def test_a_config_that_is_no_mapping_is_refused(config):
    assert isinstance(error_of(config), InvalidInput)


def test_an_empty_config_is_told_what_it_lacks_first():
    assert str(error_of({})) == "model_type is missing (model_type)"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def model_or_error(config: Config) -> Model | DovetailError:
    try:
        return model_from_config(config, "x")
    except DovetailError as error:
        return error


@given(data=st.data())
def test_any_json_at_any_key_gives_a_model_that_builds_or_one_line(data):
    config, _ = data.draw(st.sampled_from(list(RELEASED.values())))
    key = data.draw(st.sampled_from(sorted(config)))
    changed = config | {key: data.draw(JSON | st.integers(min_value=0, max_value=2**21))}
    answer = model_or_error(changed)
    if isinstance(answer, Model):
        assert answer.forward(Sample(batch=1, seq=1, dtype="bf16")).num_parameters > 0
    else:
        assert "\n" not in str(answer)
        assert len(str(answer)) < 500
