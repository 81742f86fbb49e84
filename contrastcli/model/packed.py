"""The BERT family for encoding on a CPU, close to the speed of its matrix products.

Texts lie one after another in one matrix of tokens, so that nothing is computed for padding; only attention looks at
texts one by one, at all those of one length at once. oneDNN multiplies with weights that were laid out for it once, and
adds the bias and the residual or applies the activation in the same pass. Outputs equal `bert.Bert`'s to 1e-5 in fp32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastcli.model.bert import Bert, Hidden, Layer

_ROWS = 1024  # tokens of a usual chunk, for which the weights are laid out
_POST_OPS = {"gelu": ("gelu", "none"), "gelu_new": ("gelu", "tanh"), "gelu_pytorch_tanh": ("gelu", "tanh")}
_POST_OPS["relu"] = ("relu", "")


def supported(dtype: torch.dtype) -> bool:
    """Whether this torch and CPU multiply matrices of that type by oneDNN."""
    backend: Any = torch.backends.mkldnn
    ops: Any = torch.ops.mkldnn
    if not (backend.is_available() and hasattr(ops, "_linear_pointwise")):
        return False
    return dtype == torch.float32 or bool(ops._is_mkldnn_bf16_supported())


class PackedBert:
    """A copy of an encoder's layers, as they are now, with matrix products in `dtype` and the rest in float32."""

    def __init__(self, bert: Bert, dtype: torch.dtype) -> None:
        self._bert = bert
        self._dtype = dtype
        self._layers = [_Layer(layer, dtype) for layer in bert.layers]  # type: ignore[arg-type]

    def __call__(self, texts: Sequence[Tensor]) -> list[Hidden]:
        """The hidden states of token ids (n, T), for each of several lengths T."""
        shapes = [ids.shape for ids in texts]
        first = x = torch.cat([self._bert.embed(ids).flatten(0, 1) for ids in texts])  # (tokens, d)
        penultimate = first
        for layer in self._layers:
            penultimate, x = x, layer(x, shapes)
        sizes = [ids.numel() for ids in texts]
        split = (torch.split(states, sizes) for states in (first, penultimate, x))
        return [
            Hidden(*(part.view(*shape, -1) for part in parts)) for shape, *parts in zip(shapes, *split, strict=True)
        ]


class _Layer:
    def __init__(self, layer: Layer, dtype: torch.dtype) -> None:
        self._heads = layer.shape.heads
        self._dtype = dtype
        self._qkv, self._mix = _Linear(layer.qkv, dtype), _Linear(layer.mix, dtype)
        self._expand = _Linear(layer.expand, dtype, *_POST_OPS[layer.shape.activation])
        self._contract = _Linear(layer.contract, dtype)
        self._attention_norm, self._norm = layer.attention_norm, layer.norm

    def __call__(self, x: Tensor, shapes: Sequence[torch.Size]) -> Tensor:
        """The next hidden states (tokens, d), float32."""
        qkv = self._qkv(x.to(self._dtype))  # (tokens, 3 d)
        mixed = torch.empty_like(x, dtype=self._dtype)
        start = 0
        for n, length in shapes:
            rows = slice(start, start + n * length)
            q, k, v = qkv[rows].view(n, length, 3, self._heads, -1).permute(2, 0, 3, 1, 4)  # (n, H, T, d/H)
            mixed[rows].view(n, length, self._heads, -1).copy_(_attend(q, k, v).transpose(1, 2))
            start = rows.stop
        x = self._attention_norm(self._mix.add(mixed, x))
        normed: Tensor = self._norm(self._contract.add(self._expand(x.to(self._dtype)), x))
        return normed


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if q.dtype == torch.float32:
        return F.scaled_dot_product_attention(q, k, v)
    weights: Tensor = ((q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)).softmax(-1, dtype=torch.float32)
    mixed: Tensor = weights.to(v.dtype) @ v  # torch's own attention is slower in bf16
    return mixed


class _Linear:
    """x → post_op(x Wᵀ + b), in `dtype`."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype, post_op: str = "none", variant: str = "") -> None:
        weight, bias = linear.weight.detach(), linear.bias.detach()
        self._dtype = dtype
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype), _ROWS)
        self._bias = bias.to(dtype)
        self._post_op: tuple[str, list[float], str] = (post_op, [], variant)

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, *self._post_op)
        return product

    def add(self, x: Tensor, other: Tensor) -> Tensor:
        """The product plus `other`; both are float32."""
        if self._dtype != torch.float32:
            return self(x) + other
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, "add")
        return total
