"""The BERT family for encoding on a CPU, close to the speed of its matrix products.

Texts lie one after another in one matrix of tokens, so that nothing is computed for padding; only attention looks at
texts one by one, at all those of one length at once. oneDNN multiplies with weights that were laid out for it once, and
adds the bias and the residual or applies the activation in the same pass. Outputs equal `bert.Bert`'s to 1e-5 in fp32.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastcli.model.bert.cpu import Packing, attend_near, rotate
from contrastcli.model.bert.network import Bert, EncoderLayer, Hidden, Rotation
from contrastcli.model.devices import has_products
from contrastcli.settings.sections import Precision

_Range = tuple[float, float]

ROWS = 1024
"""Tokens of a usual chunk, for which the weights are laid out."""
_BLOCK = 16
"""Torch's attention is fast on texts of a multiple of so many tokens, and a few more."""
_LEAST_TOKENS = {torch.float32: 16, torch.bfloat16: 32}
"""From here on it can be faster than attention in parts."""
_POST_OPS = {"": ("none", ""), "gelu": ("gelu", "none"), "gelu_new": ("gelu", "tanh"), "relu": ("relu", "")}
_POST_OPS["gelu_pytorch_tanh"] = _POST_OPS["gelu_new"]

_Products = tuple[
    "_Linear | _Int8Linear", "_Linear | _Int8Linear", "_Linear | _Gated | _Int8Linear", "_Linear | _Int8Linear"
]
"""The linear layers qkv, mix, expand and contract, with their activations; `add` is a sum with a residual."""


class PackedBert:
    """A copy of an encoder's layers, as they are now: all in float32 or bfloat16, or matrix products in int8.

    `sample` holds token ids (T,) of usual texts, from which int8 takes the ranges of activations: they are fixed, so
    that the embedding of a text does not depend on the texts that are encoded with it.
    """

    def __init__(self, bert: Bert, precision: Precision, sample: Sequence[Tensor] = ()) -> None:
        self._bert = bert
        self._dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        products: Callable[[EncoderLayer], _Products]
        if precision == "int8":
            products = partial(_int8_products, ranges=_ranges(bert, sample))
        else:
            products = partial(_float_products, dtype=self._dtype)
        self._layers = [(layer, products(layer)) for layer in bert.layers if isinstance(layer, EncoderLayer)]

    def __call__(self, ids: Tensor, mask: Tensor, first_token: bool = False) -> Hidden:
        """As `bert.Bert`, of texts of which those of one length follow one another."""
        shapes = [(len([*alike]), tokens) for tokens, alike in groupby(mask.sum(1).tolist())]
        count, length = ids.shape
        bias, packing = self._bert.distance_bias(length), Packing.of(mask, (count, length), 1)
        first = x = self._bert.embed(ids, packing).to(self._dtype)  # (tokens, d)
        places = packing.pack(torch.arange(length).repeat(count, 1)[..., None])[:, 0]
        *layers, last = zip(self._layers, self._bert.rotations(places), strict=True)
        for layer, rotation in layers:
            x = _next_states(*layer, x, shapes, bias, rotation)
        states = self._bert.final_norm(_next_states(*last[0], x, shapes, bias, last[1], first_token))
        states = states[:, None] if first_token else packing.unpack(states)
        return Hidden(packing.unpack(first), packing.unpack(x), states)


def _next_states(
    layer: EncoderLayer,
    products: _Products,
    x: Tensor,
    shapes: Sequence[tuple[int, int]],
    bias: Tensor | None,
    rotation: Rotation | None,
    first_token: bool = False,
) -> Tensor:
    """The next hidden states (tokens, d), or (texts, d) of first tokens; `shapes` are texts and their length."""
    as_qkv, mix, expand, contract = products
    heads, sizes = layer.shape.heads, [n * length for n, length in shapes]
    qkv = as_qkv(layer.attention_norm(x) if layer.pre_norm else x)
    if rotation is not None:
        qk = qkv.view(len(x), 3 * heads, -1)[:, : 2 * heads].transpose(0, 1)  # (2 H, tokens, d/H)
        qk.copy_(rotate(qk, rotation))
    if first_token:
        x = torch.cat([of.view(*shape, -1)[:, 0] for shape, of in zip(shapes, torch.split(x, sizes), strict=True)])
    mixed = qkv.new_empty(x.shape)
    places = torch.split(mixed, [n for n, _ in shapes] if first_token else sizes)
    for (n, length), of, into in zip(shapes, torch.split(qkv, sizes), places, strict=True):
        q, k, v = of.view(n, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # (n, H, T, d/H)
        q = q[:, :, :1] if first_token else q
        added = None if bias is None else bias[:, : q.shape[2], :length]
        into.view(n, -1, heads, q.shape[3]).copy_(_attend(q, k, v, added, layer.window).transpose(1, 2))
    if layer.pre_norm:
        x = mix.add(mixed, x)
        return contract.add(expand(layer.norm(x)), x)
    x = layer.attention_norm(mix.add(mixed, x))
    normed: Tensor = layer.norm(contract.add(expand(x), x))
    return normed


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, window: int) -> Tensor:
    """Attention of (n, H, T, d/H) heads, q scaled, with a bias (H, T, T) for the scores, or over near keys alone.

    Torch's is slow on some lengths, its softmax on under 16 numbers.
    """
    length = k.shape[2]
    if 0 < window < length - 1:
        return attend_near(q, k, v, None, 0.0, window, scale=1.0)
    if length >= 4 * _BLOCK or (length >= _LEAST_TOKENS[q.dtype] and length % _BLOCK <= 4):
        mask = None if bias is None else bias.to(q.dtype)[None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
    scores = (q @ k.transpose(2, 3)).float()  # (n, H, T, T)
    scores = scores if bias is None else scores + bias
    padded = F.pad(scores, (0, max(0, 16 - length)), value=-torch.inf)
    mixed: Tensor = padded.softmax(3)[..., :length].to(v.dtype) @ v
    return mixed


def _float_products(layer: EncoderLayer, dtype: torch.dtype) -> _Products:
    linear = partial(_Linear, dtype=dtype)
    expand = (_Gated if layer.pre_norm else _Linear)(layer.expand, dtype, activation=layer.shape.activation)
    return linear(_scaled(layer)), linear(layer.mix), expand, linear(layer.contract)


def _scaled(layer: EncoderLayer) -> nn.Linear:
    """The layer's queries, keys and values, queries scaled for attention."""
    scaled, width = deepcopy(layer.qkv), layer.shape.width
    for parameter in scaled.parameters():
        parameter.data[:width] *= (width // layer.shape.heads) ** -0.5
    return scaled


class _Linear:
    """In float32 or bfloat16, as its inputs and results are."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype, activation: str = "") -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().to(dtype), ROWS)
        self._bias = None if linear.bias is None else linear.bias.detach().to(dtype)
        post_op, variant = _POST_OPS[activation]
        self._post_op: tuple[str, list[float], str] = (post_op, [], variant)

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, *self._post_op)
        return product

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.binary(x, residual, "add")

    def binary(self, x: Tensor, other: Tensor, operation: str) -> Tensor:
        """The product, then `add` or `mul` with another tensor in the same pass."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, operation)
        return result


class _Gated:
    """The first half of a linear layer's outputs, activated, times the second half."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype, activation: str) -> None:
        inner, gate = deepcopy(linear), deepcopy(linear)
        inner.weight.data, gate.weight.data = linear.weight.detach().chunk(2)
        self._inner, self._gate = _Linear(inner, dtype, activation), _Linear(gate, dtype)

    def __call__(self, x: Tensor) -> Tensor:
        return self._gate.binary(x, self._inner(x), "mul")


@torch.inference_mode()
def product(linear: nn.Linear, precision: Precision, rows: int) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The fastest way to multiply by a linear layer's weights on its device, and an input of some tokens for it."""
    x = torch.randn(rows, linear.in_features, device=linear.weight.device)
    if precision == "int8":
        return _Int8Linear(linear, (-1.0, 1.0), dtype=torch.bfloat16), (x * 64 + 128).byte()
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    if x.device.type == "cpu" and has_products(precision):
        return _Linear(linear, dtype), x.to(dtype)
    return linear.to(dtype), x.to(dtype)


def _int8_products(layer: EncoderLayer, ranges: dict[nn.Module, _Range]) -> _Products:
    def linear(module: nn.Linear, limits: nn.Module | None = None, **words: Any) -> "_Int8Linear":
        return _Int8Linear(module, ranges[limits or module], **words)

    attention = torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32
    contract = linear(layer.contract)
    expand = linear(layer.expand, activation=layer.shape.activation, into=contract)
    return linear(_scaled(layer), layer.qkv, dtype=attention), linear(layer.mix), expand, contract


class _Int8Linear:
    """Weights in int8 with a scale for each output, activations in 8 bits with one scale.

    The result has `dtype`, or is already quantised for the layer `into`.
    """

    def __init__(
        self,
        linear: nn.Linear,
        limits: _Range,
        activation: str = "",
        dtype: torch.dtype = torch.float32,
        into: "_Int8Linear | None" = None,
    ) -> None:
        weight = linear.weight.detach()
        self._scales = weight.abs().amax(1).clamp(min=1e-30) / 127
        quantised = (weight / self._scales[:, None]).round().to(torch.int8)
        self._weight = torch.ops.onednn.qlinear_prepack(quantised, [ROWS, weight.shape[1]])
        self._zeros = torch.zeros(len(weight), dtype=torch.int64)
        self._bias = linear.bias.detach()
        low, high = limits
        self._scale = max((high - low) / 255, 1e-30)
        self._zero = round(-low / self._scale)
        out = (1.0, 0, dtype) if into is None else (into._scale, into._zero, torch.uint8)
        post_op, variant = _POST_OPS[activation]
        self._out: tuple[Any, ...] = (*out, post_op, [], variant)

    def __call__(self, x: Tensor) -> Tensor:
        x = x if x.dtype == torch.uint8 else self._quantise(x)
        weight = (self._weight, self._scales, self._zeros, self._bias)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(x, self._scale, self._zero, *weight, *self._out)
        return product

    def add(self, x: Tensor, residual: Tensor) -> Tensor:
        return self(x).add_(residual)

    def _quantise(self, x: Tensor) -> Tensor:
        signed = (x.float() * (1 / self._scale)).round_().add_(self._zero - 128).clamp_(-128, 127)
        # Torch itself converts to uint8 slowly.
        return signed.to(torch.int8).view(torch.uint8).bitwise_xor_(128)


def _ranges(bert: Bert, sample: Sequence[Tensor]) -> dict[nn.Module, _Range]:
    """The least and the largest input of each linear layer for some texts, 0 included."""
    ranges: dict[nn.Module, _Range] = {}

    def watch(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        low, high = ranges.get(module, (0.0, 0.0))
        ranges[module] = min(low, float(inputs[0].min())), max(high, float(inputs[0].max()))

    hooks = [module.register_forward_pre_hook(watch) for module in bert.modules() if isinstance(module, nn.Linear)]
    for ids in sample:
        bert(ids[None], None)
    for hook in hooks:
        hook.remove()
    return ranges
