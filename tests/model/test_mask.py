"""Mask pooling: the vector of the mask token in the words around a text, which no limit cuts."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from contrastcli.commands.train import preview
from contrastcli.errors import DataError
from contrastcli.model.contract import adapted, read_contract
from contrastcli.model.folder import load_encoder, make_encoder, save_encoder
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Model
from support.families import write_family
from support.rounding import assert_near
from support.tiny import Tiny

SUFFIX = "gum [MASK] lo"
TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", ""]


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
    ids, hidden = typed(tiny.backbone, [f"sir ka {text} gum [MASK] lo" for text in TEXTS], padding=True)
    assert_near(encoder.encode(TEXTS), hidden[ids == encoder.tokenizer.mask_id])


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


REFUSED: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "no mask token": ("qwen3", {"attention": "bidirectional"}, "has no mask token", "use --pooling mean"),
    "no mask in the suffix": ("bert", {"suffix": "gum lo"}, "mask pooling has no mask token in", "use --suffix"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_backbone_or_a_suffix_without_a_mask_is_refused(tmp_path: Path, case: str) -> None:
    family, settings, what, hint = REFUSED[case]
    folder = write_family(family, tmp_path / family)
    with pytest.raises(DataError, match=what) as raised:
        make_encoder(adapted(read_contract(folder), Model(pooling="mask", **settings))[0])
    assert raised.value.hint.startswith(hint)


def test_a_dry_run_refuses_them_before_weights_are_loaded(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="mask pooling has no mask token in"):
        preview(tiny.config("simcse", "pairs", model__pooling="mask", model__suffix="lo"), Run(tmp_path / "new"))


def test_a_decoder_may_end_each_text_with_words(tmp_path: Path) -> None:
    """PromptEOL: the last token of a template."""
    contract, _ = adapted(
        read_contract(write_family("llama", tmp_path / "llama")), Model(prompts="ba ", suffix="gum lo")
    )
    encoder = make_encoder(contract)
    ids = encoder.tokenizer.encode(["ba den " * 99], 7)[0]
    assert [encoder.tokenizer.vocabulary()[i] for i in ids] == ["ba", "den", "ba", "den", "gum", "lo", "[SEP]"]
    assert contract.pooling == "last" and contract.prompt() == "ba "
