"""BERT, RoBERTa, XLM-RoBERTa and DistilBERT without transformers, with their published weights.

One encoder serves all of them; `families` has the differences. Outputs equal transformers' to 1e-5 in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.model.families import ACTIVATIONS, Family, Shape, canonical

_WEIGHTS_HINT = "use the model.safetensors that belongs to this config.json"


class Hidden(NamedTuple):
    """The layers that pooling uses, each (B, T, d). With a single layer `penultimate` is `first`."""

    first: Tensor
    """Output of the embedding layer, before any attention."""
    penultimate: Tensor
    last: Tensor


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """Skip the random weights, which take longer than reading a file."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Skip the random weights."""


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability `p` (to 2⁻¹⁶) and scale the others by 1 / (1 − p).

    On a CPU torch draws a Bernoulli number for each element, a quarter of a training step. Here four elements share
    the 64 bits of one draw, which is five times faster.
    """
    if x.device.type != "cpu":
        return F.dropout(x, p)
    count, dropped = x.numel(), round(p * 2**16)
    draws = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    kept = draws[:count].view(x.shape) >= dropped - 2**15
    return x * kept.to(x.dtype).mul_(2**16 / (2**16 - dropped))


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """Attention of (B, H, T, d/H) heads over the keys where `mask` (B, 1, 1, T) is true; dropout `p` on its weights."""
    if p == 0 or q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)  # (B, H, T, T)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return dropout(scores.softmax(-1).to(v.dtype), p) @ v


class Layer(nn.Module):
    """One transformer layer, normalised after each half (Vaswani et al. 2017; Devlin et al. 2019)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.activation = ACTIVATIONS[shape.activation]
        self.qkv = _Linear(shape.width, 3 * shape.width)
        self.mix = _Linear(shape.width, shape.width)
        self.attention_norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.expand = _Linear(shape.width, shape.inner)
        self.contract = _Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """The next hidden states (B, T, d) of `x` (B, T, d) under an attention mask."""
        split = (*x.shape[:2], self.shape.heads, -1)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))  # (B, H, T, d/H)
        mixed = attend(q, k, v, mask, self._rate(self.shape.attention_dropout))
        mixed = self.mix(mixed.transpose(1, 2).reshape(x.shape))  # (B, T, d)
        x = self.attention_norm(x + self._drop(mixed, self.shape.mix_dropout))
        inner = self.activation(self.expand(x))  # (B, T, inner)
        normed: Tensor = self.norm(x + self._drop(self.contract(inner), self.shape.dropout))
        return normed

    def _rate(self, p: float) -> float:
        return p if self.training else 0.0

    def _drop(self, x: Tensor, p: float) -> Tensor:
        return dropout(x, p) if self._rate(p) else x


class PublishedModule(nn.Module):
    """A module whose weights have other names in published files. They are uninitialised until `load`."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def published_names(self, name: str) -> list[str]:
        """The published names of a parameter; several are rows of one fused matrix."""
        raise NotImplementedError

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Load published tensors, under any known spelling and in any float type, as fp32; ignore all others.

        Raises DataError for a tensor that is missing or of another shape.
        """
        published = canonical(weights, self.family)
        state = {}
        for name, parameter in self.named_parameters():
            names = self.published_names(name)
            missing = [part for part in names if part not in published]
            if missing:
                raise DataError(f"the weights lack '{missing[0]}'", _WEIGHTS_HINT)
            tensor = published[names[0]] if len(names) == 1 else torch.cat([published[part] for part in names])
            if tensor.shape != parameter.shape or not tensor.is_floating_point():
                actual, expected = f"{tensor.dtype} {list(tensor.shape)}", f"floats {list(parameter.shape)}"
                what = f"the weights of '{name}' are {actual} where config.json says {expected}"
                raise DataError(what, _WEIGHTS_HINT)
            state[name] = tensor.float()
        self.load_state_dict(state, assign=True)

    def published_state(self) -> dict[str, Tensor]:
        """The weights under the names of transformers, sharing memory with the parameters."""
        return {
            published: part
            for name, parameter in self.named_parameters()
            for names in (self.published_names(name),)
            for published, part in zip(names, parameter.detach().chunk(len(names)), strict=True)
        }


class Bert(PublishedModule):
    """The encoder of the BERT family."""

    def __init__(self, shape: Shape, family: Family) -> None:
        super().__init__(family)
        self.shape = shape
        self.words = _Embedding(shape.vocab_size, shape.width, padding_idx=shape.padding)
        self.positions = _Embedding(
            shape.positions, shape.width, padding_idx=shape.padding if family.count_from_padding else None
        )
        self.types = _Embedding(shape.types, shape.width) if shape.types else None
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Hidden:
        """(B, T) token ids, padded on the right, and a (B, T) bool mask that is false on padding (None: no padding)."""
        if attention_mask is not None and attention_mask.device.type == "cpu" and bool(attention_mask.all()):
            attention_mask = None  # faster; on other devices the test would wait for the device
        mask = None if attention_mask is None else attention_mask[:, None, None, :]  # (B, 1, 1, T)
        first = x = self.embed(input_ids)  # (B, T, d)
        penultimate = first
        for layer in self.layers:
            penultimate, x = x, layer(x, mask)
        return Hidden(first, penultimate, x)

    def embed(self, input_ids: Tensor) -> Tensor:
        """The embedding layer's output (B, T, d) of token ids (B, T)."""
        if self.family.count_from_padding:
            real = input_ids.ne(self.shape.first_position - 1).long()  # (B, T) 0 on padding
            positions = self.positions(real.cumsum(1) * real + self.shape.first_position - 1)  # (B, T, d)
        else:
            positions = self.positions.weight[: input_ids.shape[1]]  # (T, d)
        x = self.words(input_ids) + positions
        if self.types is not None:
            x = x + self.types.weight[0]
        x = self.norm(x)
        return dropout(x, self.shape.dropout) if self.training and self.shape.dropout else x

    def published_names(self, name: str) -> list[str]:
        module, _, kind = name.rpartition(".")
        head, *rest = module.split(".")
        index, template = (rest[0], f"{head}.{{}}.{rest[1]}") if rest else ("", module)
        return [f"{part.format(index)}.{kind}" for part in self.family.modules[template]]


class MaskedLMHead(PublishedModule):
    """The pretrained masked-language-model head: dense, activation, LayerNorm, and the tied word embeddings."""

    def __init__(self, encoder: Bert) -> None:
        super().__init__(encoder.family)
        shape = encoder.shape
        self.activation = ACTIVATIONS[encoder.family.head_activation or shape.activation]
        self.dense = _Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.bias = nn.Parameter(torch.empty(shape.vocab_size))
        # a tuple hides the tied matrix from this module: it is a parameter of the encoder alone
        self._words = (encoder.words,)

    def forward(self, hidden: Tensor) -> Tensor:
        """(M, d) last hidden states at masked tokens → (M, V) logits."""
        x = self.norm(self.activation(self.dense(hidden)))  # (M, d)
        return F.linear(x, self._words[0].weight, self.bias)  # (M, V)

    def published_names(self, name: str) -> list[str]:
        module, dot, kind = name.partition(".")
        return [f"{self.family.head[module]}{dot}{kind}"]
