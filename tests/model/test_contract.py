"""A model's contract: read from a folder, kept, changed by settings, and written again; the words of mask pooling."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from contrastcli.errors import DataError, UsageError, Use
from contrastcli.model.contract import adapted, read_contract
from contrastcli.model.folder import load_encoder, load_model, make_encoder, save_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.pooling import Dense, Normalize
from contrastcli.model.prompts import read_prompts
from contrastcli.settings.sections import Model
from support.contracts import SCALE, by_hand, under, write_embedder
from support.families import write_family
from support.rounding import assert_near
from support.tiny import Tiny, edit_json

TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", "ba " * 100]


@pytest.fixture
def embedder(tiny: Tiny, tmp_path: Path) -> Path:
    return write_embedder(tiny.backbone, tmp_path / "embedder")


def test_any_chain_of_layers_comes_back_and_is_computed(embedder: Path, tmp_path: Path) -> None:
    encoder = load_encoder(embedder)
    assert [type(layer) for layer in encoder.after] == [Normalize, Dense, nn.LayerNorm, Dense, Normalize]
    assert_near(encoder.encode(TEXTS), [by_hand(encoder, text) for text in TEXTS], scale=SCALE)
    save_encoder(encoder, tmp_path / "again")
    again = load_encoder(tmp_path / "again")
    assert str(again.contract) == str(encoder.contract) and again.max_length == encoder.max_length == 12
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_embeddings_are_cut_where_sentence_transformers_cuts_them(embedder: Path, tmp_path: Path) -> None:
    whole = load_encoder(embedder).encode(TEXTS)
    edit_json(embedder / "config_sentence_transformers.json", truncate_dim=4)
    assert "unit length → first 4 numbers;" in str(read_contract(embedder))
    encoder = load_encoder(embedder)
    save_encoder(encoder, tmp_path / "again")
    for one in (encoder, load_encoder(tmp_path / "again")):
        assert one.width == 4 and not one.contract.normalizes
        assert np.array_equal(one.encode(TEXTS), whole[:, :4])


@pytest.mark.filterwarnings("ignore")  # of the other library
@pytest.mark.parametrize("prompts", [{}, {"prompts": {"passage": "ba go ", "all": "ka "}, "default": "all"}])
def test_sentence_transformers_pools_without_the_prompt_alike(
    embedder: Path, tmp_path: Path, prompts: dict[str, Any]
) -> None:
    library = pytest.importorskip("sentence_transformers")
    encoder = under(load_encoder(embedder), include_prompt=False)
    encoder.put_under(replace(encoder.contract, **prompts))
    save_encoder(encoder, tmp_path / "again")
    theirs = library.SentenceTransformer(str(tmp_path / "again"), device="cpu")
    assert_near(theirs.encode_query(TEXTS), encoder.encode(TEXTS, "query"), scale=SCALE)
    assert_near(theirs.encode_document(TEXTS), encoder.encode(TEXTS, "document"), scale=SCALE)
    assert_near(theirs.encode(TEXTS), encoder.encode(TEXTS), scale=SCALE)


@pytest.mark.parametrize("include_prompt", [True, False])
def test_a_prompt_that_leaves_no_token_to_the_text_is_refused(embedder: Path, include_prompt: bool) -> None:
    """All texts would have the same vector, or one of zeros."""
    encoder = under(load_encoder(embedder), prompt="ba " * 40, include_prompt=include_prompt)
    with pytest.raises(DataError, match=f"takes .* tokens, and the model reads {encoder.max_length}"):
        encoder.encode(TEXTS)


def test_passages_are_documents_and_what_has_no_prompt_gets_the_default_one(embedder: Path) -> None:
    contract = replace(read_contract(embedder), prompts={"passage": "p ", "all": "a "}, default="all")
    assert [contract.prompt(kind) for kind in ("query", "document", None)] == ["a ", "p ", "a "]


def test_of_a_model_that_compares_otherwise_it_is_said_once_it_is_used(
    tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for after, notes in (([], 1), ([Normalize()], 0)):
        save_encoder(under(load_encoder(tiny.backbone), *after, similarity="dot"), tmp_path / f"dot-{notes}")
        load_model(resolve(str(tmp_path / f"dot-{notes}")))
        assert capsys.readouterr().err.count("compares by dot, and its scores and answers here are by cosine") == notes


CHANGES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "its own pooling": ({"pooling": "mean"}, []),
    "another pooling": (
        {"pooling": "cls"},
        [
            "model.pooling is cls instead of the backbone's mean, without the backbone's "
            "dense 32 to 40 with Identity and layer norm and dense 40 to 6 with GELU"
        ],
    ),
    "a longer text": ({"max_length": 20}, ["model.max_length is 20 instead of the backbone's 12 tokens"]),
    "a shorter text": ({"max_length": 8}, []),
    "no prompts": ({"prompts": "none"}, ["model.prompts replaces the backbone's prompts query, document, other"]),
    "a prompt by role": (
        {"prompts": "anchor=other,positive=den, "},
        ["model.prompts replaces the backbone's prompts query, document"],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_a_setting_changes_of_the_backbone_is_said(embedder: Path, case: str) -> None:
    changes, notes = CHANGES[case]
    contract, said = adapted(read_contract(embedder), Model(**changes))
    assert said == notes
    assert isinstance(contract.after[-1], Normalize)


def test_a_bare_backbone_has_no_contract_that_a_setting_could_change(tiny: Tiny) -> None:
    assert adapted(read_contract(tiny.backbone), Model(pooling="cls", max_length=8))[1] == []


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("anchor=a", "without a prompt for the positives"),
        ("positive=a", "without a prompt for the anchors"),
        ("question=a", "there is no role 'question'"),
        ("anchor=a,positive=b,passage=c", "there is no role 'passage'"),
    ],
)
def test_each_role_has_its_prompt_and_there_are_no_others(words: str, what: str) -> None:
    with pytest.raises(UsageError, match=what) as error:
        read_prompts(words)
    (remedy,) = error.value.remedies
    assert isinstance(remedy, Use) and read_prompts(remedy.value)


SUFFIX = "gum [MASK] lo"
SHORT = [*TEXTS[:3], ""]


def typed(model: Path, texts: list[str], **more: Any) -> tuple[Any, Any]:
    """Token ids and last hidden states of whole texts by transformers, with the special tokens typed."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    batch = tokenizer([f"[CLS] {text} [SEP]" for text in texts], add_special_tokens=False, return_tensors="pt", **more)
    network = transformers.AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    with torch.no_grad():
        return batch["input_ids"], network(**batch).last_hidden_state


def test_a_vector_is_that_of_the_mask_token_in_the_words_around_the_text(tiny: Tiny) -> None:
    settings = Model(pooling="mask", prompts="sir ka ", suffix=SUFFIX)
    encoder = make_encoder(adapted(read_contract(tiny.backbone), settings)[0])
    ids, hidden = typed(tiny.backbone, [f"sir ka {text} gum [MASK] lo" for text in SHORT], padding=True)
    assert_near(encoder.encode(SHORT), hidden[ids == encoder.tokenizer.mask_id])


def test_no_limit_cuts_what_follows_a_text(tiny: Tiny) -> None:
    encoder = make_encoder(adapted(read_contract(tiny.backbone), Model(pooling="mask", suffix=SUFFIX))[0])
    words = "den ba fir " * 30
    (whole,), (ids,) = encoder.tokenizer.encode([words], 99), encoder.tokenizer.encode([words], 9)
    assert len(ids) == 9 and ids[:5] == whole[:5] and ids[5:] == whole[-4:]
    assert encoder.encode([words]).shape == (1, 32)


def test_without_words_mask_pooling_takes_those_of_the_paper(tiny: Tiny) -> None:
    contract, _ = adapted(read_contract(tiny.backbone), Model(pooling="mask"))
    assert (contract.prompt(), contract.prompt("document")) == ('This sentence of "',) * 2
    assert contract.suffix == '" means [MASK].' and "then '\" means [MASK].'" in str(contract)
    # eval and query take another pooling alone
    assert str(load_encoder(tiny.backbone, "mask").contract) == str(contract)


def test_a_suffix_replaces_an_earlier_one(tiny: Tiny, tmp_path: Path) -> None:
    save_encoder(load_encoder(tiny.backbone, "mask"), tmp_path / "first")
    contract, notes = adapted(read_contract(tmp_path / "first"), Model(suffix=SUFFIX))
    assert "model.suffix is 'gum [MASK] lo' instead of the backbone's '\" means [MASK].'" in notes
    save_encoder(make_encoder(contract), tmp_path / "second")
    second = load_encoder(tmp_path / "second")
    tokens = [second.tokenizer.vocabulary()[i] for i in second.tokenizer.added]
    assert tokens == ["[CLS]", "gum", "[MASK]", "lo", "[SEP]"] and second.contract.pooling == "mask"


def test_a_backbone_without_a_mask_is_refused_mask_pooling(tmp_path: Path) -> None:
    folder = write_family("qwen3", tmp_path / "qwen3")
    with pytest.raises(DataError, match="has no mask token") as raised:
        make_encoder(adapted(read_contract(folder), Model(pooling="mask", attention="bidirectional"))[0])
    assert raised.value.hint.startswith("use --pooling mean")


def test_a_decoder_may_end_each_text_with_words(tmp_path: Path) -> None:
    """PromptEOL: the last token of a template."""
    contract, _ = adapted(
        read_contract(write_family("llama", tmp_path / "llama")), Model(prompts="ba ", suffix="gum lo")
    )
    encoder = make_encoder(contract)
    ids = encoder.tokenizer.encode(["ba den " * 99], 7)[0]
    assert [encoder.tokenizer.vocabulary()[i] for i in ids] == ["ba", "den", "ba", "den", "gum", "lo", "[SEP]"]
    assert contract.pooling == "last" and contract.prompt() == "ba "
