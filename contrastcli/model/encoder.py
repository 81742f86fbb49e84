"""The sentence encoder: a backbone under its contract; texts → (N, d)."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contrastcli.boundary import narrate
from contrastcli.data.batching import Indices, chunks, even_chunks
from contrastcli.data.sources import load_examples
from contrastcli.data.tokens import CHARACTERS, Advance, Tokenizer, TokenTable
from contrastcli.errors import DataError, RunError, UsageError, Use
from contrastcli.model.backbone import Backbone, BertBackbone
from contrastcli.model.bert.packed import PackedBert
from contrastcli.model.contract import Contract
from contrastcli.model.devices import has_products, is_out_of_memory
from contrastcli.model.metrics import require_finite
from contrastcli.model.pooling import pool, width_after
from contrastcli.model.prompts import PROMPT_NAMES
from contrastcli.model.workers import count_workers, side_by_side
from contrastcli.objectives.functional import to_device
from contrastcli.settings.sections import Data, Kind, Precision

ENCODE_BUDGET = 16_384
"""Tokens at once without a graph: they fill a GPU, and need little memory next to the weights."""
CPU_CHUNK = 1_536
"""Tokens at once for each thread of a CPU: more are not faster."""
LEAST_CHUNK = 128
"""Tokens for which a thread of their own is worth it."""
MOST_WORKERS = 16
"""A guess at where the GIL limits, made on two cores."""
TEXTS_AT_ONCE = 20_000
"""Texts tokenised and sorted together, which bounds memory on corpora of any size."""
_PAD_TEXTS, _PAD_TOKENS = 8, 4
"""In training sizes are padded to multiples of these."""
_LONG = 256
"""Tokens of a text from which rows of padding would cost more than they save."""


Copy = PackedBert | Backbone
"""A copy of a backbone for encoding."""


class SentenceEncoder(nn.Module):
    """A model folder in memory: `encode` pools and goes on as its contract says."""

    def __init__(self, backbone: Backbone, tokenizer: Tokenizer, contract: Contract) -> None:
        super().__init__()
        self.backbone = backbone
        self.tokenizer = tokenizer
        self.put_under(contract)
        self.max_length = min(backbone.max_length, contract.max_length or backbone.max_length)
        self.name = "the model"
        """What errors call it."""
        self.precision: Precision = "fp32"
        """Of `encode`; training sets its own."""
        self.dim: int | None = None
        """What `set_dim` was asked for."""
        self.full = 0
        """How many of the texts of `blocks` so far fill max_length, or are cut there."""
        self.note: Callable[[str], object] = narrate
        self.reductions = 0
        """How many times memory ran out in encoding: each halved the tokens at once."""
        self._copy: tuple[object, Copy] | None = None
        """The weights that were copied for encoding, and their copy."""

    def put_under(self, contract: Contract) -> None:
        """Follow another contract of the same backbone from now on."""
        self.contract = contract
        self.after = contract.after  # (B, d) → (B, width)

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        return next(self.parameters()).device

    @property
    def width(self) -> int:
        """The width d of the embeddings that `encode` returns."""
        return width_after(self.after, self.backbone.width)

    def set_dim(self, dim: int) -> None:
        """Keep the first `dim` numbers of every embedding. Raises UsageError where there are fewer."""
        if not 0 < dim <= self.width:
            what = f"the embeddings of {self.name} have {self.width} numbers, and {dim} of them are asked for"
            raise UsageError(what, Use("--dim", f"N, at most {self.width}", "use"))
        if self.contract.dims and dim not in (trained := (*self.contract.dims, self.width)):
            self.note(f"note: {self.name} was trained at {', '.join(map(str, trained))} numbers, not at {dim}")
        self.put_under(self.contract.shortened(dim, self.width))
        self.dim = dim
        self.to(self.device)

    def pooled(
        self, table: TokenTable, texts: Indices, precision: Precision = "fp32", copy: Copy | None = None
    ) -> Tensor:
        """Pooled embeddings (B, d), float32, of some texts of a table, before the layers that follow.

        By its backbone under autocast, or by a copy of it that has a precision of its own.
        """
        ids, mask = (to_device(of, self.device) for of in padded(self, table, texts))
        first_token = self.needs_first_token(table, texts)
        pooled: Tensor = self(ids, mask, first_token, precision, copy, table.skipped(texts))
        return pooled[: len(texts)]

    def needs_first_token(self, table: TokenTable, texts: Indices) -> bool:
        """Whether pooling takes the first token alone. A text of no tokens has none."""
        return self.contract.pooling == "cls" and bool(table.lengths[texts].all())

    def forward(
        self,
        ids: Tensor,
        mask: Tensor,
        first_token: bool = False,
        precision: Precision = "fp32",
        copy: Copy | None = None,
        skipped: Indices | None = None,
    ) -> Tensor:
        """`pooled` of token ids and their mask (N, T), on the encoder's device: (N, d)."""
        with autocast(self.device, precision if copy is None else "fp32"):
            hidden = (copy or self.backbone)(ids, mask, first_token)
        with autocast(self.device, "fp32"):
            mask = mask & (ids == self.tokenizer.mask_id) if self.contract.pooling == "mask" else mask
            return pool(hidden, mask, self.contract.pooling, skipped)

    def tokenise(self, texts: Sequence[str], kind: Kind | None = None) -> TokenTable:
        """The table of texts, each after the model's prompt for their kind, cut at the model's limit."""
        prompt = self.contract.prompt(kind)
        table = TokenTable.of(self.tokenizer.encode([prompt + text for text in texts], self.max_length))
        return self.with_prompts(table, [prompt], np.zeros(len(texts), np.int64))

    def with_prompts(self, table: TokenTable, prompts: Sequence[str], which: Indices) -> TokenTable:
        """The table of texts that begin with prompts, `which` (N,) says with which, and leave them out if need be.

        Raises DataError for a prompt that leaves no token to the text.
        """
        for prompt in prompts:
            if (taken := len(self.tokenizer.encode([prompt], CHARACTERS)[0])) >= self.max_length:
                what = f"the prompt {prompt!r:.60} takes {taken} tokens, and {self.name} reads {self.max_length}"
                raise DataError(what, "use a shorter prompt, or train with a greater model.max_length")
        if self.contract.include_prompt:
            return table
        return replace(table, prompts=self.tokenizer.prompt_lengths(prompts)[which])

    @torch.inference_mode()
    def encode_table(self, table: TokenTable, *, on_chunk: Callable[[int], None] | None = None) -> Tensor:
        """Embeddings (N, width) of a whole table, in its order, on the CPU."""
        was_training = self.training
        self.eval()
        try:
            copy = self._prepare() if table.lengths.all() else None
            # Where there is room the vectors stay on the device, which need not be waited for after each chunk then.
            place = self.device if len(table) <= TEXTS_AT_ONCE else torch.device("cpu")
            vectors = torch.empty(len(table), self.width, dtype=torch.float32, device=place)
            finished = np.zeros(len(table), dtype=bool)

            @torch.inference_mode()  # each thread has its own
            def embed(chunk: Indices) -> int:
                pooled = self.pooled(table, chunk, self.precision, copy)
                vectors[to_device(torch.from_numpy(chunk), place)] = self.after(pooled).to(place)
                finished[chunk] = True
                return len(chunk)

            while not finished.all():
                for count in _embed_all(self, embed, table.lengths, np.flatnonzero(~finished)):
                    if on_chunk:
                        on_chunk(count)
            return vectors.cpu()
        finally:
            self.train(was_training)

    def train(self, mode: bool = True) -> Self:
        """As nn.Module; training needs no copy of the weights for encoding."""
        if mode:
            self._copy = None
        return super().train(mode)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and deepcopy, which cannot have the copy of the weights."""
        return self.__dict__ | {"_copy": None}

    def _prepare(self) -> Copy | None:
        """A copy of the backbone that encodes faster than itself: for texts without padding, or in bfloat16."""
        backbone, precision = self.backbone, self.precision
        is_possible = self.device.type == "cpu" and has_products(precision) and not backbone.adapter
        is_possible &= precision != "int8" or backbone.takes_int8
        bert = backbone.bert if is_possible and isinstance(backbone, BertBackbone) else None
        if bert is None and precision != "bf16":
            if precision == "int8":
                what = "int8 needs a CPU with VNNI or AMX, and a BERT, RoBERTa, DistilBERT or MPNet model"
                raise UsageError(what, Use("--precision", "bf16 or fp32", "use"))
            return None
        source = (precision, [(weight.data_ptr(), weight._version) for weight in backbone.parameters()])
        if self._copy is None or self._copy[0] != source:
            self._copy = None  # frees its memory first
            usual = usual_texts() if precision == "int8" else ()
            sample = [torch.tensor(ids) for ids in self.tokenizer.encode(usual, self.max_length)]
            self._copy = source, PackedBert(bert, precision, sample) if bert else deepcopy(backbone).bfloat16()
        return self._copy[1]

    def encode(
        self, texts: Sequence[str], kind: Kind | None = None, *, on_progress: Advance | None = None
    ) -> NDArray[np.float32]:
        """Embeddings (N, d) of texts, in their order; of unit length only if the model normalises.

        Texts of a `kind` get the model's prompt for it, others its default one. Raises DataError where a number is not
        finite.
        """
        texts = _listed(texts)
        if kind not in (None, *PROMPT_NAMES):
            raise ValueError(f"there is no kind of text {kind!r}, but {', '.join(PROMPT_NAMES)}")
        vectors = np.empty((len(texts), self.width), dtype=np.float32)
        done = 0
        for block in self.blocks(texts, kind, on_progress):
            vectors[done : done + len(block)] = block
            done += len(block)
        return vectors

    def blocks(
        self, texts: Sequence[str], kind: Kind | None, on_progress: Advance | None, rows: range | None = None
    ) -> Iterator[NDArray[np.float32]]:
        """The embeddings of `encode` in blocks, for texts whose embeddings do not fit into memory.

        Those of some `rows` have the bits that they have among all: blocks begin and end at the same texts.
        """
        rows = range(len(texts)) if rows is None else rows
        starts = range(rows.start // TEXTS_AT_ONCE * TEXTS_AT_ONCE, rows.stop if rows else 0, TEXTS_AT_ONCE)
        done, total = 0, sum(min(TEXTS_AT_ONCE, len(texts) - start) for start in starts)

        def advance(more: int) -> None:
            nonlocal done
            done += more
            if on_progress:
                on_progress(done, total)

        advance(0)
        for start in starts:
            some = texts[start : start + TEXTS_AT_ONCE]
            table = self.tokenise(some, kind)
            own = slice(max(0, rows.start - start), rows.stop - start)
            self.full += int((table.lengths[own] >= self.max_length).sum())
            vectors = self.encode_table(table, on_chunk=advance).numpy()
            require_finite(vectors, some, self.name)
            yield vectors[own]


def usual_texts() -> list[str]:
    """Texts of the starter, short ones and one that is long, from which int8 takes the ranges of activations."""
    texts = load_examples(Data(train="starter"), ("triplets",), ()).views["anchor"]
    return [*texts[:: max(1, len(texts) // 64)], " ".join(texts[:32])]


def _listed(texts: Sequence[str]) -> list[str]:
    """Texts as a list. Raises TypeError where they are none."""
    # A text and a table of pandas have it too.
    if isinstance(texts, str | Mapping) or not hasattr(texts, "__getitem__") or getattr(texts, "ndim", 1) != 1:
        what = "one text" if isinstance(texts, str) else f"a {type(texts).__name__}"
        raise TypeError(f"encode takes a list of texts, not {what}")
    if (other := next((text for text in enumerate(texts) if not isinstance(text[1], str)), None)) is not None:
        raise TypeError(f"encode takes texts, and number {other[0]} is {other[1]!r:.40}")
    return list(texts)


def padded(encoder: SentenceEncoder, table: TokenTable, texts: Indices) -> tuple[Tensor, Tensor]:
    """Token ids, padded on the right, and the mask of real tokens, both (N, T), on the CPU.

    N is that of the texts and T that of the longest. In training they are rounded up, N by texts of one token:
    libraries prepare each product that they meet of another size, which takes longer than the product itself.
    """
    lengths = table.lengths[texts]
    longest = int(lengths.max(initial=1))
    if encoder.training:
        more = -len(texts) % _PAD_TEXTS if longest <= _LONG else 0
        lengths = np.pad(lengths, (0, more), constant_values=1)
        longest = max(longest, min(-(-longest // _PAD_TOKENS) * _PAD_TOKENS, encoder.backbone.max_length))
    real = np.arange(longest)[None, :] < lengths[:, None]
    ids = np.full(real.shape, encoder.tokenizer.pad_id, dtype=np.int64)
    flat = np.concatenate([table[int(i)] for i in texts])
    ids[: len(texts)][real[: len(texts)]] = np.where(flat < 0, ~flat, flat)
    real[: len(texts)][real[: len(texts)]] = flat >= 0
    return torch.from_numpy(ids), torch.from_numpy(real)


def _embed_all(
    encoder: SentenceEncoder, embed: Callable[[Indices], int], lengths: Indices, texts: Indices
) -> Iterator[int]:
    """Embed texts in chunks; ends early where memory runs out, after which chunks are smaller. Raises RunError."""
    on_cpu, workers = encoder.device.type == "cpu", 1
    budget = max(1, (CPU_CHUNK if on_cpu else ENCODE_BUDGET) >> encoder.reductions)
    if on_cpu:
        workers = count_workers(MOST_WORKERS if encoder.backbone.takes_threads else 1)
        cut = even_chunks(lengths[texts], budget, workers, LEAST_CHUNK)
    else:
        cut = chunks(lengths[texts], budget)
    try:
        yield from side_by_side(embed, [texts[chunk] for chunk in cut], workers)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    else:
        return
    if max(map(len, cut)) == 1:
        longest = int(lengths[texts].max())
        what = f"memory ran out with one text of {longest:,} tokens"
        raise RunError(what, "use a smaller model, or no GPU: CUDA_VISIBLE_DEVICES= before the command")
    encoder.reductions += 1
    encoder.note(f"memory ran out in encoding: it continues with at most {max(1, budget // 2):,} tokens at once")
    torch.cuda.empty_cache()


def autocast(device: torch.device, precision: Precision) -> contextlib.AbstractContextManager[object]:
    """Autocast for bf16, or none. Weights are cast once in the outermost of such contexts."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")
