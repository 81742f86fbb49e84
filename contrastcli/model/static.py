"""Static models: a vector for each token, of which a text's is the mean. sentence-transformers: StaticEmbedding."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from contrastcli.data.tokens import Tokenizer, TokenTable
from contrastcli.errors import DataError, UsageError
from contrastcli.files import json_bytes
from contrastcli.model.backbone import Backbone
from contrastcli.model.bert.network import Hidden
from contrastcli.model.contract import Contract
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.pooling import Normalize
from contrastcli.model.weights import CONFIG, WEIGHTS, read_weights
from contrastcli.objectives.functional import to_device

DIM = 256
"""The usual width of a static model."""
_SIF = 1e-4
"""The a of the weight a / (a + p) of a token of probability p (Arora et al. 2017), as in model2vec."""
_UNUSED = re.compile(r"(\[unused\d+\])?")
_NO_LIMIT = 1 << 20
"""Tokens of a text, or words whose tokens are remembered."""
_APART = {"BertNormalizer", "Lowercase", "BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
"""Steps of a tokenizer after which a word's tokens depend on no other word."""


class StaticBackbone(Backbone):
    """Token vectors (V, d), the same in every text."""

    def __init__(self, vectors: Tensor) -> None:
        count, width = vectors.shape
        config = {"model_type": "static", "hidden_size": width, "vocab_size": count}
        super().__init__(config, width, 1, _NO_LIMIT, count)
        self.embedding = nn.Embedding(count, width, _weight=vectors.float())

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None, first_token: bool = False) -> Hidden:
        states = self.embedding(input_ids)
        return Hidden(states, states, states)

    def save(self, folder: Path) -> None:
        (folder / CONFIG).write_bytes(json_bytes(self.config))
        save_file({"embedding.weight": self.embedding.weight.detach().cpu()}, folder / WEIGHTS, {"format": "pt"})


class StaticTokenizer(Tokenizer):
    """The tokenizer of a folder without special tokens; where words are apart, it remembers the tokens of each."""

    def __init__(self, folder: Path, *, lowercase: bool = False) -> None:
        super().__init__(folder, lowercase=lowercase, bare=True)
        parts = msgspec.json.decode(self._fast.to_str())
        normalizer = parts["normalizer"] or {"normalizers": []}
        steps = [parts["pre_tokenizer"] or {}, *normalizer.get("normalizers", [normalizer])]
        self._is_apart = {step.get("type") for step in steps} <= _APART
        self._is_apart &= not any(" " in token["content"] for token in parts["added_tokens"])
        self._words: dict[str, list[int]] = {}

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        if not self._is_apart:
            return super().encode(texts, max_length)
        if len(self._words) > _NO_LIMIT:
            self._words.clear()
        words = [text.split(" ") for text in texts]
        new = list({word for its in words for word in its} - self._words.keys())
        self._words.update(zip(new, super().encode(new, _NO_LIMIT), strict=True))
        return [[i for word in its for i in self._words[word]][:max_length] for its in words]


class StaticEncoder(SentenceEncoder):
    """A static model, which encodes without padding."""

    @torch.inference_mode()
    def encode_table(self, table: TokenTable, *, on_chunk: Callable[[int], None] | None = None) -> Tensor:
        if self.precision != "fp32":
            return super().encode_table(table, on_chunk=on_chunk)
        arrays = (table.flat.astype(np.int64), table.starts[:-1].astype(np.int64))
        ids, starts = (to_device(torch.from_numpy(array), self.device) for array in arrays)
        weight = cast(StaticBackbone, self.backbone).embedding.weight
        vectors: Tensor = self.after(nn.functional.embedding_bag(ids, weight, starts, mode="mean")).cpu()
        if on_chunk:
            on_chunk(len(table))
        return vectors


def load_static(contract: Contract) -> tuple[Backbone, Tokenizer]:
    """The token vectors and the tokenizer of a contract's folder. Raises DataError."""
    vectors = read_weights(contract.backbone).get("embedding.weight")
    if vectors is None or vectors.ndim != 2:
        what = f"{contract.backbone / WEIGHTS} holds no matrix 'embedding.weight'"
        raise DataError(what, "use sentence-transformers for this model")
    return StaticBackbone(vectors), StaticTokenizer(contract.backbone, lowercase=contract.lowercase)


def distil(encoder: SentenceEncoder, dim: int | None = None) -> SentenceEncoder:
    """A static model of what a model makes of each token alone, by model2vec's recipe.

    These are the first `dim` principal components of the vector of each token, with a weight by its place in the
    vocabulary, as if that were in the order of frequency (Zipf's law). Raises UsageError.
    """
    dim, contract = dim or min(DIM, encoder.width), encoder.contract
    if dim > encoder.width:
        encoder.set_dim(dim)  # raises UsageError
    if contract.is_static:
        raise UsageError(f"{encoder.name} is a static model", "export it as sentence-transformers")
    vocabulary, special = encoder.tokenizer.vocabulary(), encoder.tokenizer.special_ids
    used = [i for i, token in enumerate(vocabulary) if i not in special and not _UNUSED.fullmatch(token)]
    vectors = _vectors_of(encoder, used).double()
    centred = vectors - vectors.mean(dim=0)
    axes = torch.linalg.eigh(centred.T @ centred).eigenvectors.flip(1)[:, :dim]  # (d, dim), the largest first
    shares = 1 / torch.arange(2, len(used) + 2, dtype=torch.float64)
    weights = _SIF / (_SIF + shares / shares.sum())  # (V,)
    matrix = torch.zeros(len(vocabulary), dim)
    matrix[used] = (centred @ axes * weights[:, None]).float()
    after = nn.Sequential(*([Normalize()] if contract.normalizes else []))
    own = Contract(contract.backbone, after=after, max_length=encoder.max_length, is_static=True)
    tokenizer = StaticTokenizer(contract.backbone, lowercase=contract.lowercase)
    static = StaticEncoder(StaticBackbone(matrix), tokenizer, own).eval()
    static.name = encoder.name
    return static


def _vectors_of(encoder: SentenceEncoder, tokens: Sequence[int]) -> Tensor:
    """The vector (V, d) of each token after the model's default prompt, between its special tokens."""
    contract, prompt = encoder.contract, encoder.contract.prompt()
    frame = encoder.tokenise([""])[0]
    end = len(frame) - encoder.tokenizer.ending
    table = TokenTable.of([*frame[:end], token, *frame[end:]] for token in tokens)
    table = encoder.with_prompts(table, [prompt], np.zeros(len(tokens), np.int64))
    # Without unit length: the length of a token's vector says how much it matters.
    layers = [*contract.after][: len(contract.after) - contract.normalizes]
    encoder.put_under(replace(contract, after=nn.Sequential(*layers)))
    vectors = encoder.encode_table(table)
    encoder.put_under(contract)
    return vectors
