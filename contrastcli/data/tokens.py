"""Texts as token ids: the tokenizer of a model folder, a table of many texts, and its cache on disk."""

import contextlib
import hashlib
import logging
import math
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from contrastcli.data.texts import GrowingArray
from contrastcli.errors import DataError, Use, failing_as
from contrastcli.files import cache_key, cached, decoding, read_bytes, read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

Ids = NDArray[np.int32]

Advance = Callable[[int, int], None]
"""Called with the number of items done and their total."""

_AGAIN = "download the model folder again"
_TABLE_BLOCK = 10_000
SHARD = 50_000
"""Texts tokenised between two reports of progress."""

CHARACTERS = 1 << 22
"""Characters tokenised at once, or one text: the library also keeps the tokens beyond the limit, until all are done."""

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
)


_USUAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
"""The special tokens of BERT and RoBERTa, which their published folders do not name."""

_OWN_KEYS = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
_OWN_KEYS |= {"tokenize_chinese_chars": "handle_chinese_chars", "add_prefix_space": "add_prefix_space"}
"""What transformers takes from a tokenizer_config.json for BERT's normalizer and the words of bytes of RoBERTa and
others, whatever tokenizer.json has."""
_AS_IT_IS = ("PreTrainedTokenizerFast", "TokenizersBackend", "LlamaTokenizer", "LlamaTokenizerFast")
"""The classes that take tokenizer.json alone, Llama's where it is one of bytes."""
_WITHOUT_BLANK = ("Roberta", "GPT2", "Bart", "Longformer", "Deberta")
"""What the names of classes begin with that put no blank before a text unless told to."""
_AS_SAVED = {"tokenizer_class": _AS_IT_IS[0], "model_input_names": ["input_ids", "attention_mask"]}
"""Of a tokenizer that was changed: transformers replaces the normalizer and template of others by their class's."""

# With more tokens the library takes minutes and gigabytes.
_Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 21)]

# As far as a text of the greatest length fits into memory.
_MOST_GROWTH = 16


class _AddedToken(msgspec.Struct):
    id: _Id


class _Model(msgspec.Struct):
    vocab: dict[str, _Id] | list[Any] = msgspec.field(default_factory=dict)


class _Normalizer(msgspec.Struct):
    """One step, which may replace a character by a text, or a sequence of steps."""

    content: str = ""
    normalizers: "list[_Normalizer]" = []

    @property
    def growth(self) -> int:
        """How many times longer a text may become."""
        return math.prod([len(self.content) or 1, *(step.growth for step in self.normalizers)])


class _TokenizerFile(msgspec.Struct):
    """The parts of a tokenizer.json that are checked before the library reads it."""

    model: _Model
    added_tokens: list[_AddedToken] = msgspec.field(default_factory=list)
    normalizer: _Normalizer | None = None

    def __post_init__(self) -> None:
        if self.normalizer and self.normalizer.growth > _MOST_GROWTH:
            raise ValueError(f"its normalizer makes texts {self.normalizer.growth:,} times longer")

    @property
    def largest_id(self) -> int:
        vocabulary = self.model.vocab
        ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
        return max([*ids, *(token.id for token in self.added_tokens)], default=0)


@contextlib.contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """Redirect stdout: the library prints there which settings of a token it does not know."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class Tokenizer:
    """The tokenizer of a model folder, with ids of special tokens, −1 without one.

    Without a pad token texts are padded with the one that ends them, as decoders have it, or else with the id 0.
    With `lowercase` it lowers the case of texts first. A `suffix`, in which [MASK] is its own mask token, comes after
    every text. A `bare` one adds no special tokens. Raises DataError where the folder has no readable tokenizer, or no
    mask token for the suffix.
    """

    def __init__(self, folder: Path, *, lowercase: bool = False, suffix: str = "", bare: bool = False) -> None:
        self._files = {path.name: read_bytes(path) for name in TOKENIZER_FILES if (path := folder / name).exists()}
        self._fast, largest = _load(folder, self._files.get("tokenizer.json"))
        self._config: dict[str, object] = {}
        """What the saved tokenizer_config.json says besides."""
        self._adapt({} if bare else read_json(folder / "tokenizer_config.json", dict[str, Any]) or {}, lowercase, bare)
        names = special_names(folder) or self._usual_names()
        if "[MASK]" in suffix and "mask_token" not in names:
            what = f"the tokenizer of {folder} has no mask token for what comes after every text, '{suffix}'"
            raise DataError(what, [Use("--pooling", "mean", "use"), Use("--suffix", "without [MASK]", "give")])
        with failing_as(DataError, "the tokenizer fails", _AGAIN):
            if suffix:
                self._append(suffix.replace("[MASK]", names.get("mask_token", "")))
            self.ending = len(self._frame()[1])
            """The tokens that follow every text."""
            # What is added to every text, also by the template of a hostile file.
            self.added: list[int] = self._fast.encode("").ids
        self.largest_id = max(largest, *self.added, 0)
        its = self._fast.to_str() + self._side.replace("right", "")  # the usual one
        self.fingerprint = hashlib.sha256(its.encode()).hexdigest()
        self.pad_id = self._id(names.get("pad_token") or names.get("eos_token"), 0)
        self.mask_id = self._id(names.get("mask_token"))
        self.cls_id = self._id(names.get("cls_token") or names.get("bos_token"))
        self.special_ids = frozenset(self._id(name) for name in names.values()) - {-1}

    def _id(self, token: str | None, missing: int = -1) -> int:
        token_id: int | None = self._fast.token_to_id(token) if token else None
        return missing if token_id is None else token_id

    @failing_as(DataError, "the tokenizer fails", _AGAIN)
    def _adapt(self, config: dict[str, Any], lowercase: bool, bare: bool) -> None:
        from tokenizers import normalizers, pre_tokenizers

        side = config.get("truncation_side") or (self._fast.truncation or {}).get("direction")
        self._side = "left" if side == "left" and not bare else "right"
        self._fast.no_padding()
        self._fast.no_truncation()
        kind = str(config.get("tokenizer_class"))
        changes, stated = lowercase or bare, {} if kind in _AS_IT_IS else config
        if kind.startswith(_WITHOUT_BLANK):
            stated = {"add_prefix_space": False} | config
        for step in (self._fast.normalizer, self._fast.pre_tokenizer):
            if isinstance(step, normalizers.BertNormalizer | pre_tokenizers.ByteLevel):
                for key in (key for key in _OWN_KEYS.keys() & stated.keys() if hasattr(step, _OWN_KEYS[key])):
                    changes |= getattr(step, _OWN_KEYS[key]) != stated[key]
                    setattr(step, _OWN_KEYS[key], stated[key])
        if lowercase:
            steps = [normalizers.Lowercase(), self._fast.normalizer]
            self._fast.normalizer = normalizers.Sequence([step for step in steps if step is not None])
            self._config |= {} if bare else _AS_SAVED
        if bare:
            self._fast.post_processor = None
        if changes:
            # `save` writes one that does so too.
            self._files.pop("tokenizer.json", None)

    def _usual_names(self) -> dict[str, str]:
        """Of the special tokens of BERT and RoBERTa those that there are, by role; `save` names them."""
        tokens = [(role, token) for role, both in _USUAL.items() for token in both]
        names = {role: token for role, token in tokens if self._id(token) >= 0}
        self._config |= names
        return names

    def _frame(self) -> tuple[list[int], list[int]]:
        """The tokens before and after every text."""
        encoding = self._fast.encode("a")
        own = [n for n, is_added in enumerate(encoding.special_tokens_mask) if not is_added] or [len(encoding.ids)]
        return encoding.ids[: own[0]], encoding.ids[own[-1] + 1 :]

    def _append(self, suffix: str) -> None:
        """Have a text after every text, in place of an earlier one, before the special tokens: no limit cuts it there.

        It is a part of the tokenizer's template.
        """
        from tokenizers import processors

        template = msgspec.json.decode(self._fast.to_str())["post_processor"] or {}
        earlier = template.get("special_tokens", {}).get("suffix", {}).get("ids", [])
        before, after = self._frame()
        added = self._fast.encode(suffix, add_special_tokens=False).ids
        parts = {"before": before, "suffix": added, "after": after[len(earlier) :]}
        self._fast.post_processor = processors.TemplateProcessing(
            single="before $A suffix after",
            special_tokens=[
                {"id": name, "ids": ids, "tokens": [self._fast.id_to_token(i) for i in ids]}
                for name, ids in parts.items()
            ],
        )
        self._files.pop("tokenizer.json", None)
        self._config |= _AS_SAVED

    @failing_as(DataError, "the tokenizer fails", _AGAIN)
    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Token ids of each text with its special tokens, at most `max_length` of them."""
        self._fast.enable_truncation(max_length, direction=self._side)
        ids: list[list[int]] = []
        first = length = 0
        for end, text in enumerate(texts, 1):
            length += len(text)
            if length > CHARACTERS or end == len(texts):
                ids += [encoding.ids for encoding in self._fast.encode_batch_fast(_valid(texts[first:end]))]
                first, length = end, 0
        return ids

    def prompt_lengths(self, prompts: Sequence[str]) -> NDArray[np.int64]:
        """The tokens that each of P prompts has before a text, with the special ones before it; 0 without a prompt."""
        ids = self.encode(prompts, CHARACTERS)
        counts = [len(its) - (its[-1:] != [] and its[-1] in self.special_ids) for its in ids]
        return np.array([count if prompt else 0 for count, prompt in zip(counts, prompts, strict=True)])

    def vocabulary(self) -> list[str]:
        """Every token, by id; "" where an id has none."""
        return [self._fast.id_to_token(i) or "" for i in range(self.largest_id + 1)]

    def save(self, folder: Path, max_length: int) -> None:
        """Write the tokenizer's files as they were read, but to cut texts at a limit and to pad them on the right."""
        cut = {"direction": self._side.title(), "max_length": max_length, "strategy": "LongestFirst", "stride": 0}
        pad = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_type_id": 0}
        pad |= {"pad_id": self.pad_id, "pad_token": self._fast.id_to_token(self.pad_id)}
        sides = {"padding_side": "right", "truncation_side": self._side}
        changes: dict[str, dict[str, object]] = {
            "tokenizer.json": {"truncation": cut, "padding": pad},
            "tokenizer_config.json": {"model_max_length": max_length} | sides | self._config,
        }
        made = {"tokenizer.json": self._fast.to_str().encode()}
        made |= {"tokenizer_config.json": b"{}"} if self._config else {}
        for name, data in (made | self._files).items():
            if name in changes:
                values = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
                data = msgspec.json.format(msgspec.json.encode(values | changes[name]))
            (folder / name).write_bytes(data)


def _valid(texts: Sequence[str]) -> list[str]:
    """Texts as a list. Raises DataError for one with half a surrogate pair, as JSON may have it."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError as error:
        part = ascii(error.object[max(error.start - 20, 0) : error.start + 20])
        raise DataError(f"a text is no valid Unicode: {part}", "leave it out, or correct it") from None
    return list(texts)


def _load(folder: Path, file: bytes | None) -> "tuple[FastTokenizer, int]":
    """The tokenizer of a tokenizer.json, or of a folder without one, and its largest id."""
    from tokenizers import Tokenizer as FastTokenizer

    if file is not None:
        path = folder / "tokenizer.json"
        # Ids that are too large would abort the process.
        with decoding(path):
            largest = msgspec.json.decode(file, type=_TokenizerFile).largest_id
        with failing_as(DataError, f"{path} cannot be read", _AGAIN):
            return FastTokenizer.from_buffer(file), largest
    # It converts folders older than tokenizer.json.
    with failing_as(DataError, f"{folder} has no readable tokenizer", "add its tokenizer.json"), _printing_to_stderr():
        slow: Any = transformers().AutoTokenizer.from_pretrained(str(folder))
        fast: FastTokenizer = slow.backend_tokenizer
    vocabulary = fast.get_vocab()
    # Without files transformers makes one, to which every word is unknown.
    if vocabulary.keys() <= {*slow.all_special_tokens, "▁"}:
        hint = f"add those of the model that it was made from, or {_AGAIN}"
        raise DataError(f"{folder} has no tokenizer.json or vocab.txt", hint)
    return fast, max(vocabulary.values())


def transformers() -> Any:
    """The library with its progress bars and its log off, which write escape codes."""
    import transformers
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars

    transformers.logging.set_verbosity(logging.CRITICAL)
    is_quiet = are_progress_bars_disabled()
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    # It silences those of downloads too, which are shown.
    if not is_quiet:
        enable_progress_bars()
    return transformers


def special_names(folder: Path) -> dict[str, str]:
    """The special tokens of a model folder by role (`pad_token`, `mask_token`, …). Raises DataError."""
    names: dict[str, str] = {}
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        for role, token in (read_json(folder / file, dict[str, Any]) or {}).items():
            name = token.get("content") if isinstance(token, dict) else token
            if role.endswith("_token") and isinstance(name, str):
                names[role] = name
    return names


@dataclass(frozen=True)
class TokenTable:
    """Token ids of many texts in one flat array: text i is `flat[starts[i]:starts[i + 1]]`.

    `prompts` counts the tokens of each that are its prompt's, with the special ones before it: (N,), None for 0.
    A negative id stands for ~id, a token that no other sees: it takes a place and is not pooled.
    """

    flat: Ids
    starts: NDArray[np.int64]
    prompts: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Ids:
        return self.flat[self.starts[index] : self.starts[index + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each text: (N,)."""
        return np.diff(self.starts)

    def skipped(self, texts: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The tokens of the prompts of some texts (B,): (B,), None for 0."""
        return None if self.prompts is None else self.prompts[texts]

    @classmethod
    def of(cls, texts: Iterable[Sequence[int] | Ids]) -> "TokenTable":
        """The table of the ids of each text."""
        flat, lengths, waiting = GrowingArray(np.int32), array("q", [0]), iter(texts)
        while block := [np.asarray(ids, dtype=np.int32) for ids in islice(waiting, _TABLE_BLOCK)]:
            flat.extend(np.concatenate(block))
            lengths.extend(map(len, block))
        return cls(flat.array(), np.cumsum(np.frombuffer(lengths, np.int64)))


def tokenise(
    texts: Sequence[str], tokenizer: Tokenizer, max_length: int, on_progress: Advance | None = None
) -> TokenTable:
    """The tokens of texts, from the cache where the same texts were tokenised alike before."""

    def load(path: Path) -> TokenTable:
        starts = np.memmap(path, np.int64, "r", shape=len(texts) + 1).view(np.ndarray)
        flat = np.memmap(path, np.int32, "r", offset=starts.nbytes, shape=int(starts[-1])).view(np.ndarray)
        if path.stat().st_size != starts.nbytes + flat.nbytes:
            raise ValueError(f"{path} holds the tokens of other texts")
        return TokenTable(flat, starts)

    def encode() -> Iterator[list[int]]:
        for start in range(0, len(texts), SHARD):
            yield from tokenizer.encode(texts[start : start + SHARD], max_length)
            if on_progress:
                on_progress(min(start + SHARD, len(texts)), len(texts))

    def write(path: Path) -> None:
        table = TokenTable.of(encode())
        with open(path, "wb") as file:
            file.writelines([table.starts.data, table.flat.data])

    key = cache_key(f"3 {tokenizer.fingerprint} {max_length}\n", texts)
    table = cached(f"tokens/{key}", load, write)
    return TokenTable.of(encode()) if table is None else table
