"""The differences within the BERT family: published names, config keys, positions and dropout."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

import msgspec
import torch.nn.functional as F
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": partial(F.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
}


@dataclass(frozen=True)
class Family:
    """The names in one family of published models, and how its encoder differs."""

    prefix: str
    """Prefix of the encoder's tensors in a file that also has heads."""
    keys: Mapping[str, str]
    """Our name of a size to the config key."""
    modules: Mapping[str, tuple[str, ...]]
    """Our name of a module to the published ones; several are rows of one fused matrix. `{}` is the layer."""
    head: Mapping[str, tuple[str, ...]]
    """The same for the masked-language-model head, whose bias is in no module of ours."""
    head_activation: str = ""
    """The head's activation if it is not the encoder's."""
    count_from_padding: bool = False
    """Positions start at `padding + 1`, and padding tokens do not count (fairseq's convention)."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Config keys that transformers' class does not read, and the values that it has instead."""
    pre_norm: bool = False
    """Layers are normalised before each half, gated, without biases, and know positions by rotation alone."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(
        default_factory=lambda: {"is_decoder": False, "position_embedding_type": "absolute"}
    )
    """Config keys, and the only values with which `bert` implements the model."""


_BERT = Family(
    prefix="bert.",
    keys={
        "width": "hidden_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "inner": "intermediate_size",
        "activation": "hidden_act",
        "dropout": "hidden_dropout_prob",
        "mix_dropout": "hidden_dropout_prob",
        "attention_dropout": "attention_probs_dropout_prob",
    },
    modules={
        "words": ("embeddings.word_embeddings",),
        "positions": ("embeddings.position_embeddings",),
        "types": ("embeddings.token_type_embeddings",),
        "norm": ("embeddings.LayerNorm",),
        "layers.{}.qkv": tuple(f"encoder.layer.{{}}.attention.self.{name}" for name in ("query", "key", "value")),
        "layers.{}.mix": ("encoder.layer.{}.attention.output.dense",),
        "layers.{}.attention_norm": ("encoder.layer.{}.attention.output.LayerNorm",),
        "layers.{}.expand": ("encoder.layer.{}.intermediate.dense",),
        "layers.{}.contract": ("encoder.layer.{}.output.dense",),
        "layers.{}.norm": ("encoder.layer.{}.output.LayerNorm",),
    },
    head={
        "dense": ("cls.predictions.transform.dense",),
        "norm": ("cls.predictions.transform.LayerNorm",),
        "": ("cls.predictions",),
    },
)
_ROBERTA = replace(
    _BERT,
    prefix="roberta.",
    head={"dense": ("lm_head.dense",), "norm": ("lm_head.layer_norm",), "": ("lm_head",)},
    head_activation="gelu",
    count_from_padding=True,
)
_DISTILBERT = Family(
    prefix="distilbert.",
    keys={
        "width": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "inner": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    modules={
        "words": ("embeddings.word_embeddings",),
        "positions": ("embeddings.position_embeddings",),
        "norm": ("embeddings.LayerNorm",),
        "layers.{}.qkv": tuple(f"transformer.layer.{{}}.attention.{name}_lin" for name in "qkv"),
        "layers.{}.mix": ("transformer.layer.{}.attention.out_lin",),
        "layers.{}.attention_norm": ("transformer.layer.{}.sa_layer_norm",),
        "layers.{}.expand": ("transformer.layer.{}.ffn.lin1",),
        "layers.{}.contract": ("transformer.layer.{}.ffn.lin2",),
        "layers.{}.norm": ("transformer.layer.{}.output_layer_norm",),
    },
    head={"dense": ("vocab_transform",), "norm": ("vocab_layer_norm",), "": ("vocab_projector",)},
)
_MPNET = replace(
    _ROBERTA,
    prefix="mpnet.",
    modules={name: names for name, names in _BERT.modules.items() if name != "types"}
    | {
        "buckets": ("encoder.relative_attention_bias",),
        "layers.{}.qkv": tuple(f"encoder.layer.{{}}.attention.attn.{name}" for name in "qkv"),
        "layers.{}.mix": ("encoder.layer.{}.attention.attn.o",),
        "layers.{}.attention_norm": ("encoder.layer.{}.attention.LayerNorm",),
    },
    fixed={"pad_token_id": 1},
)
_MODERNBERT = Family(
    prefix="model.",
    keys={
        **_BERT.keys,
        "activation": "hidden_activation",
        "epsilon": "norm_eps",
        "dropout": "embedding_dropout",
        "attention_dropout": "attention_dropout",
        "mix_dropout": "attention_dropout",
        "inner_dropout": "mlp_dropout",
    },
    modules={
        "words": ("embeddings.tok_embeddings",),
        "norm": ("embeddings.norm",),
        "layers.{}.attention_norm": ("layers.{}.attn_norm",),
        "layers.{}.qkv": ("layers.{}.attn.Wqkv",),
        "layers.{}.mix": ("layers.{}.attn.Wo",),
        "layers.{}.norm": ("layers.{}.mlp_norm",),
        "layers.{}.expand": ("layers.{}.mlp.Wi",),
        "layers.{}.contract": ("layers.{}.mlp.Wo",),
        "final_norm": ("final_norm",),
    },
    head={"dense": ("head.dense",), "norm": ("head.norm",), "": ("decoder",)},
    head_activation="gelu",
    pre_norm=True,
    defaults={"embedding_dropout": 0.0, "attention_dropout": 0.0, "mlp_dropout": 0.0, "norm_eps": 1e-5},
    needs={"attention_bias": False, "mlp_bias": False, "norm_bias": False, "rope_scaling": None},
)
FAMILIES: dict[str, Family] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "distilbert": _DISTILBERT,
    "mpnet": _MPNET,
    "modernbert": _MODERNBERT,
}


class Reach(NamedTuple):
    """How a layer of ModernBERT relates tokens."""

    theta: Annotated[float, msgspec.Meta(gt=0)]
    """The base of the rotations."""
    window: int
    """The largest distance of tokens that attend to each other; 0: any."""


class _Reaches(msgspec.Struct):
    """The part of ModernBERT's config that says so, as transformers 4 and 5 write it."""

    local_attention: Annotated[int, msgspec.Meta(ge=2)] = 128
    layer_types: list[str] | None = None
    global_attn_every_n_layers: Annotated[int, msgspec.Meta(ge=1)] = 3
    rope_parameters: dict[str, dict[str, Any]] | None = None
    global_rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0

    def of_layers(self, count: int) -> list[tuple[Any, int]]:
        rope = {"full_attention": self.global_rope_theta, "sliding_attention": self.local_rope_theta}
        rope |= {kind: of["rope_theta"] for kind, of in (self.rope_parameters or {}).items() if "rope_theta" in of}
        every = self.global_attn_every_n_layers
        kinds = self.layer_types or ["sliding_attention" if n % every else "full_attention" for n in range(count)]
        return [(rope[kind], self.local_attention // 2 if kind == "sliding_attention" else 0) for kind in kinds]


_Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
_Share = Annotated[float, msgspec.Meta(ge=0, lt=1)]
_RATES = ("dropout", "attention_dropout", "mix_dropout", "inner_dropout")
_MOST_PARAMETERS = 10**10


@dataclass(frozen=True)
class Shape:
    """Sizes and constants of an encoder, read from its config."""

    width: _Size
    layers: _Size
    heads: _Size
    inner: _Size
    vocab_size: _Size
    positions: _Size
    types: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
    buckets: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
    """Of distances between tokens, each with a bias for attention."""
    padding: Annotated[int, msgspec.Meta(ge=0)] | None
    first_position: int
    epsilon: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    activation: str
    dropout: _Share
    attention_dropout: _Share
    mix_dropout: _Share
    inner_dropout: _Share
    reaches: tuple[Reach, ...]
    """Of each layer, in families that rotate."""

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide a width of {self.width}")
        if self.reaches and (len(self.reaches) != self.layers or self.width // self.heads % 2):
            raise ValueError("its layer_types do not fit its layers, or its heads have an odd width")
        if self.padding is not None and self.padding >= self.vocab_size:
            raise ValueError(f"padding is token {self.padding} of {self.vocab_size}")
        rows = self.vocab_size + self.positions + self.types
        count = self.width * (rows + self.layers * (4 * self.width + 2 * self.inner))
        if count > _MOST_PARAMETERS:
            raise ValueError(f"it would have {count:,} parameters")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Self:
        """The shape in a config. Raises KeyError for a missing size, msgspec.ValidationError for an impossible one."""
        family = FAMILIES[config["model_type"]]
        keys, config = family.keys, {**family.defaults, **config, **family.fixed}
        padding = config.get("pad_token_id", 1 if family.count_from_padding else 0)
        values = {
            **{name: config[keys[name]] for name in ("width", "layers", "heads", "inner")},
            "vocab_size": config["vocab_size"],
            "positions": config["max_position_embeddings"],
            "types": config.get("type_vocab_size", 2) if "types" in family.modules else 0,
            "buckets": config.get("relative_attention_num_buckets", 32) if "buckets" in family.modules else 0,
            "padding": padding,
            "first_position": padding + 1 if family.count_from_padding and isinstance(padding, int) else 0,
            "epsilon": config.get(keys.get("epsilon", "layer_norm_eps"), 1e-12),
            "activation": config.get(keys["activation"], "gelu"),
            **{name: config.get(keys[name], 0.1) if name in keys else 0.0 for name in _RATES},
            "reaches": msgspec.convert(config, _Reaches).of_layers(config[keys["layers"]]) if family.pre_norm else (),
        }
        return msgspec.convert(values, cls)


def fits(config: Mapping[str, Any]) -> bool:
    """Whether `bert` implements the encoder of a config."""
    family = FAMILIES.get(str(config.get("model_type")))
    return (
        family is not None
        and all((config.get(key) or value) == value for key, value in family.needs.items())
        and not (family.pre_norm and _scales_rotations(config))
        and str(config.get(family.keys["activation"], "gelu")) in ACTIVATIONS
    )


def _scales_rotations(config: Mapping[str, Any]) -> bool:
    try:
        by_kind = msgspec.convert(config, _Reaches).rope_parameters or {}
    except msgspec.ValidationError:
        return False
    return any(rope.get("rope_type", "default") != "default" for rope in by_kind.values())


def canonical(weights: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Weights without the family's prefix, TensorFlow's gamma and beta, and the decoder's copy of the head's bias."""
    spellings = {
        ".gamma": ".weight",
        ".beta": ".bias",
        "predictions.decoder.bias": "predictions.bias",
        "lm_head.decoder.bias": "lm_head.bias",
    }
    named = {}
    for name, tensor in weights.items():
        name = name.removeprefix(family.prefix)
        for old, new in spellings.items():
            name = name.removesuffix(old) + new if name.endswith(old) else name
        named[name] = tensor
    return named
