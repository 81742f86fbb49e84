"""GPU memory of training, estimated from the size of the backbone, the batch and the token budget."""

from collections.abc import Mapping
from math import ceil
from typing import Any, NamedTuple

from contrastcli.settings.config import Config

CUDA_BUDGET = 65_536
"""The largest token budget on CUDA unless train.token_budget is set."""

GRAPH_BYTES = 28 * 2
"""Bytes of activations per token, layer and hidden unit: 28 numbers in bf16."""

Sizes = tuple[int, int, int, int, int]

SIZES: Mapping[str, Sizes] = {
    "bert-base-uncased": (30522, 512, 2, 12, 768),
    "bert-large-uncased": (30522, 512, 2, 24, 1024),
    "roberta-base": (50265, 514, 1, 12, 768),
    "roberta-large": (50265, 514, 1, 24, 1024),
    "distilbert-base-uncased": (30522, 512, 0, 6, 768),
    "google/bert_uncased_L-8_H-512_A-8": (30522, 512, 2, 8, 512),
}
"""Vocabulary, positions, token types, layers and width of the papers' backbones."""


_RATE = 50e12
"""FLOP/s: what an A100 does in bf16 on short texts, about a sixth of its peak."""


_USUAL_LENGTH = 512
"""The limit of most backbones, in tokens."""


class Memory(NamedTuple):
    """An estimate in GB: weights with gradients and Adam's moments, activations of so many tokens, and the total."""

    weights: float
    activations: float
    tokens: int
    total: int


_KEYS = (
    ("vocab_size",),
    ("max_position_embeddings", "n_positions"),
    ("type_vocab_size",),
    ("num_hidden_layers", "n_layers", "num_layers", "n_layer"),
    ("hidden_size", "dim", "d_model", "n_embd"),
)
"""The names that each of SIZES has in the config.json of a model."""


def sizes_of(settings: Mapping[str, Any]) -> Sizes | None:
    """The sizes of a backbone by its config.json; None without its layers or width."""
    vocabulary, positions, types, layers, width = (
        next((value for key in keys if isinstance(value := settings.get(key), int)), 0) for keys in _KEYS
    )
    return (vocabulary, positions, types, layers, width) if layers and width else None


def estimate(
    config: Config,
    texts: float,
    budget: int = CUDA_BUDGET,
    sizes: Sizes | None = None,
    longest: int = 0,
    parameters: int = 0,
) -> Memory | None:
    """The memory of a run with so many `texts` per row; None for an unknown backbone, unless its sizes are given.

    `longest` counts the tokens of the longest text, which no budget cuts, and `parameters` the weights; 0: unknown.
    """
    sizes = sizes or SIZES.get(config.model.backbone)
    if sizes is None:
        return None
    vocabulary, positions, types, layers, width = sizes
    embeddings = (vocabulary + positions + types + 2) * width
    each = parameters or embeddings + layers * (12 * width**2 + 13 * width)
    billions = config.objective.encoders * each / 1e9
    length = longest or config.model.max_length or _USUAL_LENGTH
    batch = ceil(config.objective.texts_per_row(texts) * config.train.batch_size) * length
    tokens = max(longest, min(batch, config.train.token_budget or budget))
    # Four numbers of fp32 for each weight: itself, its gradient and Adam's two moments; under LoRA itself alone.
    weights = (4 if config.model.lora else 16) * billions
    activations = GRAPH_BYTES * tokens * layers * width / 1e9
    # Autocast keeps a copy of the weights in bf16, and CUDA takes half a GB for itself.
    total = weights + activations + 2 * billions + 0.5
    return Memory(weights, activations, tokens, ceil(total))


def gpu_hours(config: Config, rows: float, texts: float) -> float | None:
    """Hours of an A100 for rows of `texts` of the longest length, without evaluations; None for an unknown backbone."""
    if config.model.backbone not in SIZES:
        return None
    _, _, _, layers, width = SIZES[config.model.backbone]
    passes = rows * config.objective.texts_per_row(texts)
    length = config.model.max_length or _USUAL_LENGTH
    return passes * length * layers * 6 * 12 * width**2 / _RATE / 3600
