"""What makes the BERT family's network fast on a CPU: products in bfloat16, no padding, cheap random numbers.

Elsewhere and without dropout each of these is torch's own operation.
"""

from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from contrastcli.model.devices import has_products
from contrastcli.model.workers import generator

_BLOCK = 256
"""Queries for which attention to near tokens is computed at once."""
_ROWS = 64
"""Packed tokens are a multiple of this: the library prepares each size of product that it meets."""


def is_half(x: Tensor) -> bool:
    """Whether a CPU computes in bfloat16 here. Elsewhere that is left to autocast."""
    return x.device.type == "cpu" and torch.is_autocast_enabled("cpu") and has_products("bf16")


class Linear(nn.Linear):
    """A linear layer that keeps a copy of its weights in bfloat16, made again after each change of them."""

    _half: tuple[object, Tensor, Tensor | None] | None = None

    def reset_parameters(self) -> None:
        """Skip the random weights, which take longer than reading a file."""

    def forward(self, x: Tensor) -> Tensor:
        if not is_half(x):
            return super().forward(x)
        version = self.weight.data_ptr(), self.weight._version
        half = self._half
        if half is None or half[0] != version:
            bias = None if self.bias is None else self.bias.detach().bfloat16()
            half = self._half = version, self.weight.detach().bfloat16(), bias
        return _Product.apply(x.bfloat16(), self.weight, self.bias, *half[1:])  # type: ignore[no-any-return, no-untyped-call]


class _Product(Function):
    """A linear layer in bfloat16 on a CPU. Torch's own adds the bias in a pass of its own."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, half: Tensor, half_bias: Tensor | None
    ) -> Tensor:
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(x)
        ctx.half, ctx.has_bias = half, bias is not None
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, half, half_bias, "none", [], "")
        return product

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # The layer is frozen.
        if not ctx.needs_input_grad[1]:
            return gradient @ ctx.half, None, None, None, None
        (x,) = ctx.saved_tensors
        weight = gradient.T.contiguous() @ x if gradient.shape[1] < x.shape[1] else gradient.T @ x
        bias = gradient.sum(0).float() if ctx.has_bias else None
        return gradient @ ctx.half, weight.float(), bias, None, None


class Packing(NamedTuple):
    """The places of a padded batch (B, T). On a CPU padding is computed in attention only."""

    size: tuple[int, int]
    mask: Tensor | None
    """(B, 1, 1, T) false on padding, or (B, H, T, T) to add to the attention scores; None if there is neither."""
    places: tuple[Tensor, Tensor, Tensor] | None = None
    """(M,) the computed places among the B·T, real tokens and a few of padding, (B·T,) the number of the token at a
    place, and the places of padding; None if all places are computed."""

    @classmethod
    def of(cls, mask: Tensor | None, size: tuple[int, int], rows: int = _ROWS) -> Self:
        """Of a (B, T) bool mask, with a multiple of `rows` computed places.

        Other devices compute padding too, in fewer operations, and so do traces.
        """
        if mask is None or mask.device.type != "cpu" or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return cls(size, None if mask is None else mask[:, None, None, :])
        padding = (~mask).flatten().nonzero().squeeze(1)
        if len(padding) == 0:
            return cls(size, None)
        computed = mask.flatten().clone()
        computed[padding[: -int(computed.sum()) % rows]] = True
        places = (computed.nonzero().squeeze(1), (computed.cumsum(0) - 1).clamp_(min=0), padding)
        return cls(size, mask[:, None, None, :], places)

    def biased(self, bias: Tensor) -> Self:
        """With (H, T, T) added to the attention scores."""
        return self._replace(mask=bias[None] if self.mask is None else bias.where(self.mask, -torch.inf))

    def pack(self, x: Tensor) -> Tensor:
        """(B, T, n) → (M, n), the computed places."""
        rows = x.flatten(0, 1)
        if self.places is None:
            return rows
        computed, number, padding = self.places
        return _Take.apply(rows, computed, None, number, padding)  # type: ignore[no-any-return, no-untyped-call]

    def unpack(self, rows: Tensor) -> Tensor:
        """(M, n) → (B, T, n) with zeros for padding."""
        if self.places is not None:
            computed, number, padding = self.places
            rows = _Take.apply(rows, number, padding, computed, None)  # type: ignore[no-untyped-call]
        return rows.view(*self.size, -1)

    def first(self, rows: Tensor) -> Tensor:
        """(M, n) → (B, n), the first token of each text, which all have one."""
        count, length = self.size
        if self.places is None:
            return rows.view(count, length, -1)[:, 0]
        return rows.index_select(0, self.places[1][::length])


def _take(rows: Tensor, numbers: Tensor, padding: Tensor | None) -> Tensor:
    taken = rows.index_select(0, numbers)  # much faster than index_copy
    return taken if padding is None else taken.index_fill_(0, padding, 0)


class _Take(Function):
    """Rows by number, zero at padding, and their gradient back likewise: torch scatters that of a gather, slowly."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, numbers: Tensor, padding: Tensor | None, *back: Tensor | None) -> Tensor:
        ctx.back = back
        return _take(rows, numbers, padding)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return _take(gradient, *ctx.back), None, None, None, None


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
        torch.ge(bits, round(p * 2**16) - 2**15, out=bits)  # 1: kept
        # Comparing into bools and converting them is much slower.
        if y.element_size() == 2:
            ctx.kept = bits.mul_(torch.ones((), dtype=y.dtype).view(torch.int16)).view(y.dtype)
        else:
            ctx.kept = bits.to(y.dtype)
        ctx.scale = 1 / (1 - p)
        return torch.addcmul(x, y, ctx.kept, value=ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient, torch.addcmul(gradient.new_zeros(()), gradient, ctx.kept, value=ctx.scale), None


def _is_plain(x: Tensor, p: float) -> bool:
    """Whether torch's own operations serve better than those here: without dropout, and on a GPU."""
    return p == 0 or x.device.type != "cpu"


def add_dropped(x: Tensor, y: Tensor, p: float) -> Tensor:
    """The sum x + dropout(y)."""
    if _is_plain(x, p):
        return x + F.dropout(y, p)
    return _AddDropped.apply(x, y, p)  # type: ignore[no-any-return, no-untyped-call]


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """(…, T, d/H) with pairs of numbers turned by angles, whose cosines and ± sines (T, d/H) are given.

    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
    """
    cos, sin = rotation
    turned = torch.addcmul(x.float() * cos, x.float().roll(x.shape[-1] // 2, -1), sin)
    return turned.to(x.dtype)


def attend_near(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float, window: int, scale: float | None = None
) -> Tensor:
    """As `attend` with a bool mask (B, 1, 1, T), but only over keys at most `window` tokens away, if that is not 0."""
    if not 0 < window < k.shape[2] - 1:
        return attend(q, k, v, mask, p, scale)
    mixed, places = [], torch.arange(k.shape[2], device=q.device)
    for start in range(0, q.shape[2], _BLOCK):
        stop = min(start + _BLOCK, q.shape[2])
        some, near = slice(start, stop), slice(max(0, start - window), stop + window)
        distances = (places[some, None] - places[near]).abs()[None, None]  # (1, 1, Tq, Tk)
        among = distances <= window
        if mask is not None:
            # Padding attends to itself: a softmax over nothing would be no number.
            among = among & mask[..., near] | (distances == 0)
        mixed.append(attend(q[:, :, some], k[:, :, near], v[:, :, near], among, p, scale))
    return torch.cat(mixed, 2)


def dropout(x: Tensor, p: float) -> Tensor:
    """Zero each element with probability `p` and scale the others by 1 / (1 − p)."""
    return F.dropout(x, p) if _is_plain(x, p) else add_dropped(x.new_zeros(()), x, p)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float, scale: float | None = None) -> Tensor:
    """Attention of (B, H, T, d/H) heads over the keys where a bool `mask` is true; dropout `p` on its weights.

    Its shape is broadcast to that of the scores (B, H, T, T); one of floats is added to them.
    """
    mask = mask if mask is None or mask.dtype == torch.bool else mask.to(q.dtype)
    if _is_plain(q, p):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, scale=scale)
    batch, heads, queries, _ = q.shape
    if mask is None:
        mask = q.new_zeros(1, 1, 1, k.shape[2])
    elif mask.dtype == torch.bool:
        mask = q.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    bias = mask.expand(batch, heads, -1, -1).flatten(0, 1)  # (B·H, 1 or T, T)
    q, k, v = (part.flatten(0, 1) for part in (q, k, v))  # (B·H, T, d/H)
    scores = torch.baddbmm(bias, q, k.transpose(1, 2), alpha=scale or q.shape[-1] ** -0.5)  # (B·H, T, T)
    weights = dropout(scores.float().softmax(-1).to(v.dtype), p)
    return (weights @ v).view(batch, heads, queries, -1)
