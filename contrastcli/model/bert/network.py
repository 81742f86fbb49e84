"""BERT, RoBERTa, XLM-R, DistilBERT, MPNet and ModernBERT without transformers, with their published weights.

One encoder serves all of them; `families` has the differences, and `cpu` what makes it fast without a GPU. Outputs
equal transformers' to 1e-5 in fp32.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.model.bert.cpu import Linear, Packing, add_dropped, attend_near, dropout, is_half, rotate
from contrastcli.model.bert.families import ACTIVATIONS, Family, Shape

_WEIGHTS_HINT = "use the model.safetensors that belongs to this config.json"


class Hidden(NamedTuple):
    """The layers that pooling uses, each (B, T, d). With a single layer `penultimate` is `first`."""

    first: Tensor
    """Output of the embedding layer, before any attention."""
    penultimate: Tensor
    last: Tensor
    """(B, 1, d) where only the first token was asked for."""


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Skip the random weights."""


Rotation = tuple[Tensor, Tensor]
"""The cosines and ± sines (T, d/H) of the angles by which each place turns queries and keys."""


class EncoderLayer(nn.Module):
    """One transformer layer, normalised after each half (Vaswani et al. 2017; Devlin et al. 2019).

    With `pre_norm` ModernBERT's, normalised before each half and gated (Warner et al. 2024).
    """

    def __init__(self, shape: Shape, number: int = 0, *, pre_norm: bool = False) -> None:
        super().__init__()
        self.shape, self.pre_norm = shape, pre_norm
        self.activation = ACTIVATIONS[shape.activation]
        self.window = shape.reaches[number].window if shape.reaches else 0
        linear, norm = partial(Linear, bias=not pre_norm), partial(nn.LayerNorm, eps=shape.epsilon, bias=not pre_norm)
        self.qkv = linear(shape.width, 3 * shape.width)
        self.mix = linear(shape.width, shape.width)
        self.attention_norm: nn.Module = nn.Identity() if pre_norm and number == 0 else norm(shape.width)
        self.expand = linear(shape.width, (1 + pre_norm) * shape.inner)
        self.contract = linear(shape.inner, shape.width)
        self.norm = norm(shape.width)

    def forward(self, x: Tensor, packing: Packing, rotation: Rotation | None = None, first: bool = False) -> Tensor:
        """The next hidden states of tokens: (M, d) → (M, d), or (B, d) of the first token of each text."""
        mixed = self.attention(self.attention_norm(x) if self.pre_norm else x, packing, rotation, first)
        x = add_dropped(packing.first(x) if first else x, mixed, self._rate(self.shape.mix_dropout))
        if self.pre_norm:
            inner, gate = self.expand(self.norm(x)).chunk(2, -1)  # (M, inner) each
            inner = dropout(self.activation(inner) * gate, self._rate(self.shape.inner_dropout))
            return x + self.contract(inner)  # type: ignore[no-any-return]
        x = self.attention_norm(x)
        inner = self.activation(self.expand(x))  # (M, inner)
        normed: Tensor = self.norm(add_dropped(x, self.contract(inner), self._rate(self.shape.dropout)))
        return normed

    def attention(self, x: Tensor, packing: Packing, rotation: Rotation | None, first: bool) -> Tensor:
        """What tokens take from one another: (M, d) → (M, d) or (B, d)."""
        qkv = packing.unpack(self.qkv(x)).view(*packing.size, 3, self.shape.heads, -1)  # (B, T, 3, H, d/H)
        parts = qkv.permute(2, 0, 3, 1, 4)
        q, k, v = parts.contiguous() if x.device.type == "cpu" else parts  # (B, H, T, d/H) each
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        mask = packing.mask
        if first:
            q, mask = q[:, :, :1], None if mask is None else mask[:, :, :1]
        rate = self._rate(self.shape.attention_dropout)
        mixed = attend_near(q, k, v, mask, rate, self.window).transpose(1, 2).flatten(2)
        summed: Tensor = self.mix(mixed[:, 0] if first else packing.pack(mixed))
        return summed

    def _rate(self, p: float) -> float:
        return p if self.training else 0.0


class PublishedModule(nn.Module):
    """A module whose weights have other names in published files. They are uninitialised until `load`."""

    def __init__(self, published: Mapping[str, tuple[str, ...]]) -> None:
        super().__init__()
        self._published = published

    def published_names(self, name: str) -> list[str]:
        """The published names of a parameter; several are rows of one fused matrix."""
        module, _, kind = name.rpartition(".")
        head, *rest = module.split(".")
        index, template = (rest[0], f"{head}.{{}}.{rest[1]}") if rest else ("", module)
        return [f"{part.format(index)}.{kind}" for part in self._published[template]]

    def load(self, published: Mapping[str, Tensor]) -> None:
        """Load tensors by their `canonical` names, of any float type, as fp32; ignore all others.

        Raises DataError for a tensor that is missing or of another shape.
        """
        state = {}
        for name, parameter in self.named_parameters():
            names = self.published_names(name)
            missing = [part for part in names if part not in published]
            if missing:
                raise DataError(f"the weights lack '{missing[0]}'", _WEIGHTS_HINT)
            tensor = published[names[0]] if len(names) == 1 else torch.cat([published[part] for part in names])
            if tensor.shape != parameter.shape or not tensor.is_floating_point():
                actual, expected = f"{tensor.dtype} {list(tensor.shape)}", f"floats {list(parameter.shape)}"
                what = f"the weights of {', '.join(names)} are {actual} where config.json says {expected}"
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
        super().__init__(family.modules)
        self.shape, self.family = shape, family
        self.words = _Embedding(shape.vocab_size, shape.width, padding_idx=shape.padding)
        unused = shape.padding if family.count_from_padding else None
        has_places = "positions" in family.modules
        self.positions = _Embedding(shape.positions, shape.width, padding_idx=unused) if has_places else None
        self.types = _Embedding(shape.types, shape.width) if shape.types else None
        self.buckets = _Embedding(shape.buckets, shape.heads) if shape.buckets else None
        norm = partial(nn.LayerNorm, shape.width, eps=shape.epsilon, bias=not family.pre_norm)
        self.norm = norm()
        layers = (EncoderLayer(shape, number, pre_norm=family.pre_norm) for number in range(shape.layers))
        self.layers = nn.ModuleList(layers)
        self.final_norm = norm() if family.pre_norm else nn.Identity()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, first_token: bool = False) -> Hidden:
        """(B, T) token ids, padded on the right, and a (B, T) bool mask that is false on padding (None: no padding).

        With `first_token` the last layer computes that token's state alone.
        """
        count, length = input_ids.shape
        packing = Packing.of(attention_mask, (count, length))
        if (bias := self.distance_bias(length)) is not None:
            packing = packing.biased(bias)
        x = self.embed(input_ids, packing)  # (M, d)
        first = x
        *layers, last = zip(self.layers, self.rotations(torch.arange(length, device=input_ids.device)), strict=True)
        for layer, rotation in layers:
            x = layer(x, packing, rotation)
        states = self.final_norm(last[0](x, packing, last[1], first_token))
        states = states[:, None] if first_token else packing.unpack(states)
        return Hidden(packing.unpack(first), packing.unpack(x), states)

    def embed(self, input_ids: Tensor, packing: Packing | None = None) -> Tensor:
        """The embedding layer's output (B, T, d) of token ids (B, T), or (M, d) where they are packed."""
        # on a CPU to fill a dense gradient for each chunk takes a tenth of a step; most of its rows are zero
        sparse = self.training and input_ids.device.type == "cpu"
        x = F.embedding(input_ids, self.words.weight, self.words.padding_idx, sparse=sparse)
        if self.positions is not None and self.family.count_from_padding:
            real = input_ids.ne(self.shape.first_position - 1).long()
            x = x + self.positions(real.cumsum(1) * real + self.shape.first_position - 1)
        elif self.positions is not None:
            x = x + self.positions.weight[: input_ids.shape[1]]  # (T, d)
        if self.types is not None:
            x = x + self.types.weight[0]
        x = self.norm(packing.pack(x) if packing else x)
        x = dropout(x, self.shape.dropout) if self.training else x
        # Without a norm after each half their sum takes the precision of fp32.
        return x.bfloat16() if is_half(x) and not self.family.pre_norm else x

    def rotations(self, places: Tensor) -> list[Rotation | None]:
        """Of each layer, for tokens at places (T,) of their texts; None in families that do not rotate."""
        by_theta = {theta: self._rotation(theta, places) for theta in {reach.theta for reach in self.shape.reaches}}
        return [by_theta[reach.theta] for reach in self.shape.reaches] or [None] * self.shape.layers

    def _rotation(self, theta: float, places: Tensor) -> Rotation:
        numbers = self.shape.width // self.shape.heads
        speeds = 1 / theta ** (torch.arange(0, numbers, 2, dtype=torch.float, device=places.device) / numbers)
        angles = places[:, None] * speeds  # (T, d/H/2)
        sin = angles.sin()
        return angles.cos().repeat(1, 2), torch.cat([-sin, sin], 1)

    def distance_bias(self, length: int) -> Tensor | None:
        """What MPNet adds to the attention scores (H, T, T) by the distance of tokens; None in other families."""
        if self.buckets is None:
            return None
        places = torch.arange(length, device=self.buckets.weight.device)
        weights: Tensor = self.buckets(_bucket(places[:, None] - places))
        return weights.permute(2, 0, 1)


def _bucket(distance: Tensor) -> Tensor:
    """The bucket of a distance, query less key: exact below 8, then logarithmic to 128 (T5: Raffel et al. 2020)."""
    exact, most = 8, 16  # for each direction
    far = exact + (distance.abs().float() / exact).log().div(math.log(128 / exact)).mul(most - exact).long()
    near = distance.abs() < exact
    return torch.where(near, distance.abs(), far.clamp(max=most - 1)) + (distance < 0) * most


class MaskedLMHead(PublishedModule):
    """The pretrained masked-language-model head: dense, activation, LayerNorm, and the tied word embeddings."""

    def __init__(self, encoder: Bert) -> None:
        shape, family = encoder.shape, encoder.family
        super().__init__(family.head)
        self.activation = ACTIVATIONS[family.head_activation or shape.activation]
        has_bias = not family.pre_norm
        self.dense = Linear(shape.width, shape.width, bias=has_bias)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon, bias=has_bias)
        self.bias = nn.Parameter(torch.empty(shape.vocab_size))
        # a tuple hides the tied matrix from this module: it is a parameter of the encoder alone
        self._words = (encoder.words,)

    def forward(self, hidden: Tensor) -> Tensor:
        """(M, d) last hidden states at masked tokens → (M, V) logits."""
        x = self.norm(self.activation(self.dense(hidden)))
        return F.linear(x, self._words[0].weight, self.bias)
