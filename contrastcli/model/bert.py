"""BERT, RoBERTa, XLM-RoBERTa and DistilBERT without transformers, with their published weights.

One encoder serves all of them; `families` has the differences. Outputs equal transformers' to 1e-5 in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from contrastcli.errors import DataError
from contrastcli.model.devices import has_products
from contrastcli.model.families import ACTIVATIONS, Family, Shape, canonical
from contrastcli.model.workers import generator

_WEIGHTS_HINT = "use the model.safetensors that belongs to this config.json"


_ROWS = 64  # packed tokens are a multiple of this


class Hidden(NamedTuple):
    """The layers that pooling uses, each (B, T, d). With a single layer `penultimate` is `first`."""

    first: Tensor
    """Output of the embedding layer, before any attention."""
    penultimate: Tensor
    last: Tensor
    """(B, 1, d) where only the first token was asked for."""


def is_half(x: Tensor) -> bool:
    """Whether a CPU computes in bfloat16 here. Elsewhere, and in torch.compile, that is left to autocast."""
    is_eager = x.device.type == "cpu" and not torch.compiler.is_compiling()
    return is_eager and torch.is_autocast_enabled("cpu") and has_products("bf16")


class _Linear(nn.Linear):
    _half: tuple[object, Tensor, Tensor] | None = None  # the weights as they were and in bfloat16

    def reset_parameters(self) -> None:
        """Skip the random weights, which take longer than reading a file."""

    def forward(self, x: Tensor) -> Tensor:
        if not is_half(x):
            return super().forward(x)
        version = self.weight.data_ptr(), self.weight._version
        half = self._half
        if half is None or half[0] != version:
            half = self._half = version, self.weight.detach().bfloat16(), self.bias.detach().bfloat16()
        return _Product.apply(x.bfloat16(), self.weight, self.bias, *half[1:])  # type: ignore[no-any-return, no-untyped-call]


class _Product(Function):
    """A linear layer in bfloat16 on a CPU. Torch's own adds the bias in a pass of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, half: Tensor, half_bias: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.half = half
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, half, half_bias, "none", [], "")
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        weight = gradient.T.contiguous() @ x if gradient.shape[1] < x.shape[1] else gradient.T @ x
        return gradient @ ctx.half, weight.float(), gradient.sum(0).float(), None, None


class _Embedding(nn.Embedding):
    def reset_parameters(self) -> None:
        """Skip the random weights."""


class Packing(NamedTuple):
    """The places of a padded batch (B, T). On a CPU padding is computed in attention only."""

    size: tuple[int, int]  # B, T
    mask: Tensor | None  # (B, 1, 1, T) false on padding; None if there is none
    places: tuple[Tensor, Tensor, Tensor] | None = None
    """(M,) the computed places among the B·T, real tokens and a few of padding, (B·T,) the number of the token at a
    place, and the places of padding; None if all places are computed."""

    @classmethod
    def of(cls, mask: Tensor | None, size: tuple[int, int]) -> Packing:
        """Of a (B, T) bool mask. Other devices compute padding too, in fewer operations, and so do traces."""
        if mask is None or mask.device.type != "cpu" or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return cls(size, None if mask is None else mask[:, None, None, :])
        padding = (~mask).flatten().nonzero().squeeze(1)
        if len(padding) == 0:
            return cls(size, None)
        computed = mask.flatten().clone()
        computed[padding[: -int(computed.sum()) % _ROWS]] = True  # the library prepares each size that it meets
        places = (computed.nonzero().squeeze(1), (computed.cumsum(0) - 1).clamp_(min=0), padding)
        return cls(size, mask[:, None, None, :], places)

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, n) → (M, n), the computed places."""
        rows = x.flatten(0, 1)
        return rows if self.places is None else _Pack.apply(rows, *self.places)  # type: ignore[no-untyped-call]

    def unpack(self, rows: Tensor) -> Tensor:
        """(M, n) → (B, T, n) with zeros for padding."""
        if self.places is not None:
            rows = _Unpack.apply(rows, *self.places)  # type: ignore[no-untyped-call]
        return rows.view(*self.size, -1)

    def first(self, rows: Tensor) -> Tensor:
        """(M, n) → (B, n), the first token of each text, which all have one."""
        count, length = self.size
        if self.places is None:
            return rows.view(count, length, -1)[:, 0]
        return rows.index_select(0, self.places[1][::length])


def _unpack(rows: Tensor, number: Tensor, padding: Tensor) -> Tensor:
    return rows.index_select(0, number).index_fill_(0, padding, 0)  # much faster than index_copy


class _Pack(Function):
    """Both ways by gathering rows: torch scatters the gradient of a gather, which is slower."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, real: Tensor, number: Tensor, padding: Tensor) -> Tensor:
        ctx.places = number, padding
        return rows.index_select(0, real)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _unpack(gradient, *ctx.places), None, None, None


class _Unpack(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, real: Tensor, number: Tensor, padding: Tensor) -> Tensor:
        ctx.real = real
        return _unpack(rows, number, padding)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient.index_select(0, ctx.real), None, None, None


class _AddDropped(Function):
    """x + dropout(y) on a CPU, with a probability that is exact to 2⁻¹⁶.

    Torch draws a Bernoulli number for each element, a quarter of a training step. Here four elements share the 64 bits
    of one draw, by the fastest generator, which torch's seeds.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, p: float) -> Tensor:
        count = y.numel()
        seed = torch.empty((), dtype=torch.int64).random_(generator=generator())
        draws = np.random.SFC64(int(seed)).random_raw(-(-count // 4)).view(np.int16)
        bits = torch.from_numpy(draws)[:count].view(y.shape)
        torch.ge(bits, round(p * 2**16) - 2**15, out=bits)  # 1 where an element is kept
        if y.element_size() == 2:  # to compare into bools, and to convert, is much slower
            ctx.kept = bits.mul_(torch.ones((), dtype=y.dtype).view(torch.int16)).view(y.dtype)
        else:
            ctx.kept = bits.to(y.dtype)
        ctx.scale = 1 / (1 - p)
        return torch.addcmul(x, y, ctx.kept, value=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient, torch.addcmul(gradient.new_zeros(()), gradient, ctx.kept, value=ctx.scale), None


def _is_plain(x: Tensor, p: float) -> bool:
    """Whether torch's own operations serve better than those here: without dropout, on a GPU, and in torch.compile."""
    return p == 0 or x.device.type != "cpu" or torch.compiler.is_compiling()


def add_dropped(x: Tensor, y: Tensor, p: float) -> Tensor:
    """The sum x + dropout(y)."""
    if _is_plain(x, p):
        return x + F.dropout(y, p)
    return _AddDropped.apply(x, y, p)  # type: ignore[no-any-return, no-untyped-call]


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability `p` and scale the others by 1 / (1 − p)."""
    return F.dropout(x, p) if _is_plain(x, p) else add_dropped(x.new_zeros(()), x, p)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """Attention of (B, H, T, d/H) heads over the keys where `mask` (B, 1, 1, T) is true; dropout `p` on its weights."""
    if _is_plain(q, p):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)
    batch, heads, queries, _ = q.shape
    q, k, v = (part.flatten(0, 1) for part in (q, k, v))  # (B·H, T, d/H)
    bias = q.new_zeros(batch, 1, k.shape[1])
    if mask is not None:
        bias = bias.masked_fill_(~mask.squeeze(2), -torch.inf)
    bias = bias.repeat_interleave(heads, 0)  # (B·H, 1, T)
    scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)  # (B·H, T, T)
    weights = dropout(scores.float().softmax(-1).to(v.dtype), p)
    return (weights @ v).view(batch, heads, queries, -1)


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

    def forward(self, x: Tensor, packing: Packing, first: bool = False) -> Tensor:
        """The next hidden states of tokens: (M, d) → (M, d), or (B, d) of the first token of each text."""
        qkv = packing.unpack(self.qkv(x)).view(*packing.size, 3, self.shape.heads, -1)  # (B, T, 3, H, d/H)
        parts = qkv.permute(2, 0, 3, 1, 4)
        q, k, v = parts.contiguous() if x.device.type == "cpu" else parts  # (B, H, T, d/H) each
        q = q[:, :, :1] if first else q
        mixed = attend(q, k, v, packing.mask, self._rate(self.shape.attention_dropout)).transpose(1, 2).flatten(2)
        x, mixed = (packing.first(x), mixed[:, 0]) if first else (x, packing.pack(mixed))
        mixed = self.mix(mixed)  # (M, d)
        x = self.attention_norm(add_dropped(x, mixed, self._rate(self.shape.mix_dropout)))
        inner = self.activation(self.expand(x))  # (M, inner)
        normed: Tensor = self.norm(add_dropped(x, self.contract(inner), self._rate(self.shape.dropout)))
        return normed

    def _rate(self, p: float) -> float:
        return p if self.training else 0.0


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
        self.is_compiled = False

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, first_token: bool = False) -> Hidden:
        """(B, T) token ids, padded on the right, and a (B, T) bool mask that is false on padding (None: no padding).

        With `first_token` the last layer computes that token's state alone.
        """
        packing = Packing.of(attention_mask, (input_ids.shape[0], input_ids.shape[1]))
        x = self.embed(input_ids, packing)  # (M, d)
        first = x
        *layers, last = self.layers
        for layer in layers:
            x = layer(x, packing)
        states = last(x, packing, first_token)
        states = states[:, None] if first_token else packing.unpack(states)
        return Hidden(packing.unpack(first), packing.unpack(x), states)

    def compile_layers(self) -> None:
        """Compile the layers, which are alike, so that one serves all."""
        self.is_compiled = True
        for layer in self.layers:
            layer.compile(dynamic=True)

    def embed(self, input_ids: Tensor, packing: Packing | None = None) -> Tensor:
        """The embedding layer's output (B, T, d) of token ids (B, T), or (M, d) where they are packed."""
        if self.family.count_from_padding:
            real = input_ids.ne(self.shape.first_position - 1).long()  # (B, T) 0 on padding
            positions = self.positions(real.cumsum(1) * real + self.shape.first_position - 1)  # (B, T, d)
        else:
            positions = self.positions.weight[: input_ids.shape[1]]  # (T, d)
        # on a CPU to fill a dense gradient for each chunk takes a tenth of a step; most of its rows are zero
        sparse = self.training and input_ids.device.type == "cpu"
        x = F.embedding(input_ids, self.words.weight, self.words.padding_idx, sparse=sparse) + positions
        if self.types is not None:
            x = x + self.types.weight[0]
        x = self.norm(packing.pack(x) if packing else x)
        x = dropout(x, self.shape.dropout) if self.training else x
        return x.bfloat16() if is_half(x) else x  # and with it all that follows

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
