"""A model whose weights are not all numbers: no command lets its vectors out, and the error names model and text."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import contrastcli
from contrastcli.errors import DataError
from contrastcli.show.format import as_json, as_json_lines
from support.command import Contrast, failed
from support.tiny import Tiny


@pytest.fixture
def broken(tiny: Tiny, contrast: Contrast) -> str:
    """A model with a weight of the word `ba` that is not a number."""
    shutil.copytree(tiny.backbone, "broken")
    weights = load_file("broken/model.safetensors")
    word = json.loads(Path("broken/tokenizer.json").read_text())["model"]["vocab"]["ba"]
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][word, 0] = torch.nan
    save_file(weights, "broken/model.safetensors", {"format": "pt"})
    Path("corpus.txt").write_text("da fa\nba da\nfa ba\n")
    Path("pairs.csv").write_text("anchor,positive\nda,fa\nga,da ba\nka,la\n")
    return "broken"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("query da,ba --json --model broken", "ba"),
        ("query da --corpus corpus.txt --json --model broken", "ba da"),
        ("encode corpus.txt -o v.npy --model broken", "ba da"),
        ("eval broken --data pairs.csv --json", "da ba"),
        ("mine pairs.csv -o m.csv --model broken", "da ba"),
        ("compare tiny/backbone broken --bootstrap --dev pairs.csv", "da ba"),
    ],
)
def test_the_first_text_without_a_vector_is_named(contrast: Contrast, broken: str, words: str, text: str) -> None:
    answer = contrast(*words.replace(",", " ").split())
    failed(answer, 3, f"the vectors of broken are not finite numbers, the first of them that of '{text}'", "model")
    assert not Path("v.npy").exists() and not Path("m.csv").exists()


def test_texts_whose_vectors_are_numbers_are_answered(contrast: Contrast, broken: str) -> None:
    assert contrast("query", "da", "fa", "--model", broken).code == 0
    with pytest.raises(DataError, match="the vectors of broken are not finite"):
        contrastcli.load(broken).encode(["ba"])


def test_json_is_json_whatever_is_printed() -> None:
    values = {"nan": float("nan"), "infinite": [float("inf"), 1.5], "text": "é"}
    known = {"nan": None, "infinite": [None, 1.5], "text": "é"}
    assert json.loads(as_json(values, 0)) == json.loads(as_json_lines([values])) == known
