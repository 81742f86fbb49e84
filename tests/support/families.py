"""Tiny models of the families that people start from, with random weights, as transformers writes them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from support.contracts import write_embedder
from support.tiny import SPECIAL, WORDS, Tiny, write_tokenizer

VOCABULARY = len(SPECIAL) + len(WORDS)
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
"""As the configs of most families name them."""
_FAIRSEQ = {"max_position_embeddings": 42, "pad_token_id": 0}
_GROUPED = {"num_key_value_heads": 1, "head_dim": 16, "attention_dropout": 0.1}
_GEMMA = {"query_pre_attn_scalar": 16, "sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}

ENCODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", {}),
    "roberta": ("Roberta", _FAIRSEQ),
    "xlm-roberta": ("XLMRoberta", _FAIRSEQ),
    "distilbert": ("DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}),
    "mpnet": ("MPNet", _FAIRSEQ),
    "electra": ("Electra", {"embedding_size": 16}),
    "deberta-v3": (
        "DebertaV2",
        {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
        | {"type_vocab_size": 0, "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True},
    ),
    "albert": ("Albert", {"embedding_size": 16, "hidden_dropout_prob": 0.1}),
    "modernbert": (
        "ModernBert",
        {"global_attn_every_n_layers": 2, "local_attention": 8, "attention_dropout": 0.1, "cls_token_id": 2},
    ),
    "nomic-bert": ("NomicBert", {"hidden_dropout_prob": 0.1}),
    "t5": ("T5", {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 1, "num_heads": 2}),
    "embedding-gemma": ("Gemma3Text", _GROUPED | _GEMMA | {"use_bidirectional_attention": True}),
}
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3", _GROUPED),
    "llama": ("Llama", _GROUPED),
    "mistral": ("Mistral", _GROUPED | {"sliding_window": 6}),
    "gemma3": ("Gemma3Text", _GROUPED | _GEMMA),
    "phi": ("Phi", {"attention_dropout": 0.1}),
    "phi3": ("Phi3", {"attention_dropout": 0.1, "resid_pdrop": 0.1}),
}
FAMILIES = ENCODERS | DECODERS
"""The class in transformers without Model or Config, and what its config says besides SIZES."""


@pytest.fixture(scope="module", params=list(FAMILIES))
def embedder(request: pytest.FixtureRequest, tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """The world of rows with an embedder of a family as its backbone; no test may change it."""
    folder = tmp_path_factory.mktemp(request.param)
    return replace(tiny, backbone=write_embedder(write_family(request.param, folder / "bare"), folder / "embedder"))


def write_family(family: str, folder: Path, *, head: bool = False, **changes: Any) -> Path:
    """A folder as on the hub, whose biases and norms are random too; with a decoder's tokenizer if it is one.

    An encoder may have a language-model `head`, which decoders have.
    """
    name, sizes = FAMILIES[family]
    if not hasattr(transformers, f"{name}Config"):
        pytest.skip(f"this transformers has no {name}")
    config = getattr(transformers, f"{name}Config")(**SIZES | sizes | changes)
    torch.manual_seed(7)
    kind: Any = transformers.AutoModelForMaskedLM if head else transformers.AutoModel
    kind = transformers.AutoModelForCausalLM if family in DECODERS else kind
    model = kind.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    write_tokenizer(folder)
    if family in DECODERS:
        _end_texts(folder)
    return folder


def _end_texts(folder: Path) -> None:
    """Make it a tokenizer as decoders have it: a token ends each text, none begins it or pads it, padding is left."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    template = tokenizer["post_processor"]
    template["single"] = [part for part in template["single"] if part.get("SpecialToken", {}).get("id") != "[CLS]"]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "[SEP]", "padding_side": "left"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def batch(padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask (4, 9), texts of 9, 6, 2 and 1 tokens."""
    mask = torch.arange(9) < torch.tensor([9, 6, 2, 1])[:, None]
    ids = torch.randint(5, 60, mask.shape, generator=torch.Generator().manual_seed(3))
    return ids.masked_fill(~mask, padding), mask


def reference(folder: Path) -> Any:
    """The model of a folder as transformers has it, of an encoder-decoder its encoder."""
    is_t5 = json.loads((folder / "config.json").read_text())["model_type"] == "t5"
    kind: Any = transformers.T5EncoderModel if is_t5 else transformers.AutoModel
    return kind.from_pretrained(folder, dtype=torch.float32).eval()
