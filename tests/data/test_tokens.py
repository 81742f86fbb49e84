"""Texts are tokenised once; the cache returns the tokens of these texts only, and never fails a run."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models, pre_tokenizers

from contrastcli.data import tokens
from contrastcli.data.tokens import Tokenizer, TokenTable, tokenise
from contrastcli.errors import DataError
from contrastcli.files import cache_dir, checksum_of
from support.disks import FULL, failing_disk
from support.tiny import SPECIAL, WORDS, Tiny, edit_json, write_tokenizer

TEXTS = ["ba den", "fir", "go lum ma nen", "ba", ""]


class Counting(Tokenizer):
    """Counts the texts that it really tokenised."""

    count = 0

    def encode(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        self.count += len(texts)
        return super().encode(texts, max_length)


@pytest.fixture
def tokenizer(tiny: Tiny) -> Counting:
    return Counting(tiny.backbone)


def rows(table: TokenTable) -> list[list[int]]:
    return [table[i].tolist() for i in range(len(table))]


def words(text: str) -> list[int]:
    return [(SPECIAL + WORDS).index(word) for word in ("[CLS]", *text.split(), "[SEP]")]


def cached() -> list[Path]:
    return sorted((cache_dir() / "tokens").iterdir())


def test_a_text_is_its_words_between_the_special_tokens(tokenizer: Counting) -> None:
    table = tokenise(TEXTS, tokenizer, 32)
    assert rows(table) == [words(text) for text in TEXTS]
    assert table.lengths.tolist() == [4, 3, 6, 3, 2]
    assert rows(tokenise(TEXTS[2:3], tokenizer, 4)) == [words("go lum")], "cut, with its last token"


@pytest.mark.parametrize(
    ("texts", "length"),
    [
        (TEXTS, 31),
        (TEXTS[::-1], 32),
        (TEXTS[:-1], 32),
        ([*TEXTS[:-1], "ba"], 32),
        (["ba den\nfir", *TEXTS[2:], "ba"], 32),
        (["ba den", "fir\ngo lum ma nen", "ba", "", ""], 32),
    ],
)
def test_other_texts_and_lengths_are_tokenised_again(tokenizer: Counting, texts: list[str], length: int) -> None:
    tokenise(TEXTS, tokenizer, 32)
    table = tokenise(texts, tokenizer, length)
    assert tokenizer.count == len(TEXTS) + len(texts)
    assert rows(table) == [words(text) for text in texts]


def test_another_tokenizer_tokenises_again(tokenizer: Counting, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    same = Counting(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace('"ba": 5', '"ba": 6').replace('"ben": 6', '"ben": 5'))
    other = Counting(tmp_path)
    for each in (tokenizer, same, other):
        tokenise(TEXTS, each, 32)
    assert (tokenizer.count, same.count, other.count) == (len(TEXTS), 0, len(TEXTS))


@pytest.mark.parametrize("damage", ["empty", "noise", "cut", "flipped", "another"])
def test_a_damaged_cache_file_is_made_again(tokenizer: Counting, damage: str) -> None:
    expected = rows(tokenise(TEXTS, tokenizer, 32))
    (file,) = cached()
    data = file.read_bytes()
    middle = 4 * len(data) // 5
    flipped = data[:middle] + bytes(255 - byte for byte in data[middle : middle + 20]) + data[middle + 20 :]
    damages = {"empty": b"", "noise": b"noise" * 9, "cut": data[:-20], "flipped": flipped, "another": data + b"more"}
    file.write_bytes(damages[damage])
    if damage == "another":
        (cache_dir() / "checksums" / file.relative_to(cache_dir())).write_text(checksum_of(file))
    for _ in range(2):
        assert rows(tokenise(TEXTS, tokenizer, 32)) == expected
    assert tokenizer.count == 2 * len(TEXTS)
    assert cached() == [file]


def test_a_full_disk_leaves_nothing_behind(tokenizer: Counting) -> None:
    with failing_disk(cache_dir(), 1, FULL):
        assert rows(tokenise(TEXTS, tokenizer, 32)) == [words(text) for text in TEXTS]
    assert cached() == []


def test_progress_counts_to_the_end_and_texts_that_are_cached_are_not_tokenised_again(
    tokenizer: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "SHARD", 2)
    told: list[tuple[int, int]] = []
    for _ in range(2):
        table = tokenise(TEXTS, tokenizer, 32, lambda done, total: told.append((done, total)))
    assert told == [(2, 5), (4, 5), (5, 5)] and tokenizer.count == 5
    assert rows(table) == [words(text) for text in TEXTS] and table.flat.dtype == np.int32


@pytest.mark.parametrize("suffix", ["", " nen"])
def test_a_long_text_is_cut_where_the_folder_says(tmp_path: Path, suffix: str) -> None:
    write_tokenizer(tmp_path)
    right = Tokenizer(tmp_path, suffix=suffix)
    edit_json(tmp_path / "tokenizer_config.json", truncation_side="left")
    left = Tokenizer(tmp_path, suffix=suffix)
    (tmp_path / "saved").mkdir()
    left.save(tmp_path / "saved", 6)
    for one in (left, Tokenizer(tmp_path / "saved")):
        assert one.encode(["ba den fir go lum"], 6) == [words("den fir go lum"[4 * bool(suffix) :] + suffix)]
        assert one.fingerprint != right.fingerprint


@pytest.mark.parametrize(
    ("kind", "stated", "ids"),
    [
        ("RobertaTokenizer", {"add_prefix_space": True}, [1]),
        ("RobertaTokenizerFast", {}, [0]),
        ("PreTrainedTokenizerFast", {"add_prefix_space": False}, [1]),
        ("LlamaTokenizerFast", {"add_prefix_space": False}, [1]),
    ],
)
def test_the_settings_of_roberta_s_tokenizer_win_over_its_file(
    tmp_path: Path, kind: str, stated: dict[str, bool], ids: list[int]
) -> None:
    """As in transformers, which may put a blank before each text."""
    fast = FastTokenizer(models.BPE({"a": 0, "Ġa": 1, "Ġ": 2}, [("Ġ", "a")]))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=not stated.get("add_prefix_space"))
    fast.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind} | stated))
    assert Tokenizer(tmp_path).encode(["a"], 32) == [ids]


@pytest.mark.parametrize(("kind", "read"), [("BertTokenizer", "? ba ? ?"), ("PreTrainedTokenizerFast", "ba ba ?")])
def test_the_settings_of_bert_s_tokenizer_win_over_its_file(tmp_path: Path, kind: str, read: str) -> None:
    """As in transformers, where another class takes the file alone."""
    write_tokenizer(tmp_path)
    berts = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False, "lowercase": True}
    edit_json(tmp_path / "tokenizer.json", normalizer=berts | {"strip_accents": None})
    stated = {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": True}
    edit_json(tmp_path / "tokenizer_config.json", tokenizer_class=kind, **stated)
    tokenizer, saved = Tokenizer(tmp_path), tmp_path / "saved"
    saved.mkdir()
    tokenizer.save(saved, 32)
    (saved / "tokenizer_config.json").unlink()
    for one in (tokenizer, Tokenizer(saved)):
        assert one.encode(["Ba bá 日本"], 32) == [words(read.replace("?", "[UNK]"))]


def test_a_text_that_is_no_unicode_is_named(tokenizer: Counting) -> None:
    with pytest.raises(DataError, match=r"^a text is no valid Unicode: 'ba\\ud800b'$") as raised:
        tokenizer.encode(["go", "ba\ud800b", "lum"], 32)
    assert "download" not in raised.value.hint


@pytest.mark.parametrize("settings", ['{"do_lower_case": true, "model_max_length": 512}', None])
def test_special_tokens_that_a_folder_does_not_name_have_their_usual_names(
    tiny: Tiny, tmp_path: Path, settings: str | None
) -> None:
    """As bert-base-uncased and roberta-base are published."""
    named = Tokenizer(tiny.backbone)
    write_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    if settings:
        (tmp_path / "tokenizer_config.json").write_text(settings)
    unnamed = Tokenizer(tmp_path)
    (tmp_path / "saved").mkdir()
    unnamed.save(tmp_path / "saved", 32)
    for one in (unnamed, Tokenizer(tmp_path / "saved")):
        assert (one.mask_id, one.cls_id, one.pad_id) == (named.mask_id, named.cls_id, named.pad_id) == (4, 2, 0)
        assert one.special_ids == named.special_ids == frozenset(range(5))
        assert one.vocabulary() == named.vocabulary() == SPECIAL + WORDS
    assert tokens.special_names(tmp_path / "saved") == tokens.special_names(tiny.backbone)
