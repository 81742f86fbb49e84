"""The BERT family without transformers: BERT, RoBERTa, XLM-RoBERTa and DistilBERT over their published weights.

One lean encoder serves all of them; `families` holds what differs. Outputs equal transformers' to 1e-5 in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.model.families import ACTIVATIONS, Family, Shape, canonical


class Hidden(NamedTuple):
    """The layers that pooling reads, each (B, T, d). With a single layer `penultimate` is `first`."""

    first: Tensor
    """Output of the embedding layer, before any attention."""
    penultimate: Tensor
    last: Tensor


class _Linear(nn.Linear):
    def reset_parameters(self) -> None:
        """The weights come from a file: drawing random ones first would cost more than reading them."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """The weights come from a file."""


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability `p` (to 2⁻¹⁶) and scale the rest so that the mean stays.

    On a CPU torch draws one Bernoulli number per element, a quarter of a training step. Here four elements share the
    64 bits of one draw, which is five times faster.
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


class Bert(nn.Module):
    """The encoder of the BERT family. Weights are uninitialised until `load`."""

    def __init__(self, shape: Shape, family: Family) -> None:
        super().__init__()
        self.shape = shape
        self.family = family
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
            attention_mask = None  # attention is faster without; elsewhere asking would wait for the device
        mask = None if attention_mask is None else attention_mask[:, None, None, :]  # (B, 1, 1, T)
        first = x = self._embed(input_ids)  # (B, T, d)
        penultimate = first
        for layer in self.layers:
            penultimate, x = x, layer(x, mask)
        return Hidden(first, penultimate, x)

    def _embed(self, input_ids: Tensor) -> Tensor:
        x = self.words(input_ids) + self._positions(input_ids)
        if self.types is not None:
            x = x + self.types.weight[0]
        x = self.norm(x)
        return dropout(x, self.shape.dropout) if self.training and self.shape.dropout else x

    def _positions(self, input_ids: Tensor) -> Tensor:
        if not self.family.count_from_padding:
            return self.positions.weight[: input_ids.shape[1]]  # (T, d)
        token = input_ids.ne(self.shape.first_position - 1).long()  # (B, T) 0 on padding
        embedded: Tensor = self.positions(token.cumsum(1) * token + self.shape.first_position - 1)
        return embedded  # (B, T, d)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take the published tensors, in any of their spellings and float types, as fp32; others are ignored.

        Raises DataError for a tensor that is missing or of another shape.
        """
        published = canonical(weights, self.family)
        state = {}
        for name, parameter in self.named_parameters():
            parts = [_take(published, part) for part in self._published(name)]
            state[name] = _checked(name, parts[0] if len(parts) == 1 else torch.cat(parts), parameter)
        self.load_state_dict(state, assign=True)

    def published_state(self) -> dict[str, Tensor]:
        """The weights under the names of transformers' AutoModel, sharing memory with the parameters."""
        return {
            published: part
            for name, parameter in self.named_parameters()
            for names in (self._published(name),)
            for published, part in zip(names, parameter.detach().chunk(len(names)), strict=True)
        }

    def _published(self, name: str) -> list[str]:
        """`layers.3.qkv.weight` → the published names of its parts."""
        module, _, kind = name.rpartition(".")
        head, *rest = module.split(".")
        index, template = (rest[0], f"{head}.{{}}.{rest[1]}") if rest else ("", module)
        return [f"{part.format(index)}.{kind}" for part in self.family.modules[template]]


class MaskedLMHead(nn.Module):
    """The pretrained masked-language-model head: dense, activation, LayerNorm, and the tied word embeddings."""

    def __init__(self, encoder: Bert) -> None:
        super().__init__()
        shape = encoder.shape
        self.family = encoder.family
        self.activation = ACTIVATIONS[encoder.family.head_activation or shape.activation]
        self.dense = _Linear(shape.width, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.bias = nn.Parameter(torch.empty(shape.vocab_size))
        # in a tuple, so that the tied matrix stays a parameter of the encoder alone: stepped, moved and saved once
        self._words = (encoder.words,)

    def forward(self, hidden: Tensor) -> Tensor:
        """(M, d) last hidden states at masked tokens → (M, V) logits."""
        x = self.norm(self.activation(self.dense(hidden)))  # (M, d)
        return F.linear(x, self._words[0].weight, self.bias)  # (M, V)

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take the published tensors as fp32. Raises DataError where the file holds no such head."""
        published = canonical(weights, self.family)
        if self._published("dense.weight") not in published:
            raise DataError(
                "the backbone has no language-model head", "set the weight of the masked-language-model term to 0"
            )
        state = {
            name: _checked(name, _take(published, self._published(name)), parameter)
            for name, parameter in self.named_parameters()
        }
        self.load_state_dict(state, assign=True)

    def published_state(self) -> dict[str, Tensor]:
        """The head's own weights under their published names; the tied matrix is the encoder's."""
        return {self._published(name): parameter.detach() for name, parameter in self.named_parameters()}

    def _published(self, name: str) -> str:
        module, dot, kind = name.partition(".")
        return f"{self.family.head[module]}{dot}{kind}"


def _take(weights: Mapping[str, Tensor], name: str) -> Tensor:
    if name not in weights:
        raise DataError(f"the weights lack '{name}'", "use the model.safetensors that belongs to this config.json")
    return weights[name]


def _checked(name: str, tensor: Tensor, parameter: Tensor) -> Tensor:
    if tensor.shape != parameter.shape or not tensor.is_floating_point():
        found, expected = f"{tensor.dtype} {list(tensor.shape)}", f"floats {list(parameter.shape)}"
        raise DataError(
            f"the weights of '{name}' are {found} where config.json says {expected}",
            "use the model.safetensors that belongs to this config.json",
        )
    return tensor.float()
