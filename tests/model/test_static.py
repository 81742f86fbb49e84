"""A static model: a vector for each token, distilled from a model, read and written as sentence-transformers does."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from contrastcli.errors import DataError, UsageError
from contrastcli.model import static
from contrastcli.model.contract import adapted, read_contract
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, make_encoder, save_encoder
from contrastcli.model.pooling import Normalize
from contrastcli.model.static import StaticTokenizer, distil
from contrastcli.runs.measured import Evaluated
from contrastcli.settings.sections import Model
from support.command import Contrast, refused
from support.contracts import dense, under
from support.rounding import assert_near
from support.tiny import SPECIAL, WORDS, Tiny, edit_json, told, train

TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", "ba " * 100, "Ba  unknown\tgo", "", "unknown"]


@pytest.fixture(scope="module")
def teacher(tiny: Tiny) -> SentenceEncoder:
    """A model with a dense layer, unit length and a default prompt."""
    encoder = load_encoder(tiny.backbone).eval()
    return under(encoder, dense(encoder), Normalize(), prompt="go ")


@pytest.fixture(scope="module")
def folder(teacher: SentenceEncoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static model of five numbers."""
    path = tmp_path_factory.mktemp("static") / "model"
    save_encoder(distil(teacher, 5), path)
    return path


def matrix(folder: Path) -> NDArray[np.float32]:
    vectors: NDArray[np.float32] = load_file(folder / "model.safetensors")["embedding.weight"]
    return vectors


def test_a_vector_is_the_mean_of_its_tokens_vectors(folder: Path) -> None:
    tokenizer, vectors = Tokenizer.from_file(str(folder / "tokenizer.json")), matrix(folder)
    for text, vector in zip(TEXTS, load_encoder(folder).eval().encode(TEXTS), strict=True):
        ids = tokenizer.encode(text, add_special_tokens=False).ids[:32]
        mean = np.mean([vectors[i] for i in ids], axis=0) if ids else np.zeros(5)
        assert_near(vector, mean / (np.linalg.norm(mean) or 1))


def test_token_vectors_are_weighted_principal_components_of_what_the_model_makes_of_each(
    teacher: SentenceEncoder, folder: Path
) -> None:
    vectors, count = matrix(folder).astype(np.float64), len(WORDS)
    assert not vectors[: len(SPECIAL)].any()
    under(teacher, teacher.after[0])  # without unit length
    whole = teacher.encode(WORDS).astype(np.float64)
    under(teacher, teacher.after[0], Normalize())
    shares = np.array([1 / (place + 2) for place in range(count)])
    weights = np.array([1e-4 / (1e-4 + share / shares.sum()) for share in shares])
    own = vectors[len(SPECIAL) :] / weights[:, None]
    left, sizes, _ = np.linalg.svd(whole - whole.mean(axis=0), full_matrices=False)
    assert_near(own @ own.T, (left[:, :5] * sizes[:5] ** 2) @ left[:, :5].T, scale=float(sizes[0] ** 2))


def test_the_tokens_of_words_are_those_of_the_tokenizer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, plain = StaticTokenizer(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain.no_truncation()
    plain.no_padding()
    texts = [*TEXTS, "ba.den", "ba\u00a0den", " ba", "[MASK] ba[SEP]den", "ba\nden ba\u0308"]
    expected = [plain.encode(text, add_special_tokens=False).ids for text in texts]
    monkeypatch.setattr(static, "_NO_LIMIT", 6)  # forgets them in between
    for _ in range(3):
        assert own.encode(texts, 1_000) == expected
    assert own.encode(texts, 2) == [ids[:2] for ids in expected]


def test_other_pre_tokenizers_see_whole_texts(folder: Path, tmp_path: Path) -> None:
    parts = json.loads((folder / "tokenizer.json").read_text())
    parts["pre_tokenizer"] = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": False}
    (tmp_path / "tokenizer.json").write_text(json.dumps(parts))
    plain = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    plain.no_truncation()
    plain.no_padding()
    expected = [plain.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert StaticTokenizer(tmp_path).encode(TEXTS, 1_000) == expected


def test_precisions_and_poolings_of_other_models_are_refused(folder: Path, contrast: Contrast) -> None:
    refused(contrast("query", "ba", "go", "--model", folder, "--precision", "int8"), 2, "int8 needs a CPU", "bf16")
    refused(contrast("query", "ba", "go", "--model", folder, "--pooling", "cls"), 3, "static model", "--pooling")
    with pytest.raises(UsageError, match="static model"):
        distil(load_encoder(folder))
    encoder = load_encoder(folder).eval()
    whole = encoder.encode(TEXTS)
    encoder.precision = "bf16"
    assert 0 < np.abs(encoder.encode(TEXTS) - whole).max() < 0.02


def test_a_static_model_is_queried_encoded_measured_and_compared(folder: Path, contrast: Contrast) -> None:
    for words in (
        ("query", "ba den", "go", "--model", folder, "--dim", "3"),
        ("query", "ba den", "--corpus", "tiny/sentences.jsonl", "--model", folder),
        ("encode", "tiny/sentences.jsonl", "-o", "v.npy", "--model", folder),
        ("eval", folder, "--data", "tiny/dev.jsonl"),
        ("compare", folder, "tiny/backbone", "--dev", "tiny/dev.jsonl"),
    ):
        assert contrast(*words).code == 0, words
    assert np.load("v.npy").shape[1] == 5


def test_it_learns_and_its_checkpoint_is_a_static_model(tiny: Tiny, folder: Path, tmp_path: Path) -> None:
    run = tiny.run(tmp_path / "run", train__max_steps=10, train__lr=1e-2, model__backbone=str(folder))
    train(run)
    assert json.loads((run.checkpoint("last") / "modules.json").read_text())[0]["type"].endswith(".StaticEmbedding")
    assert not np.allclose(matrix(run.checkpoint("last")), matrix(folder))
    assert [event.step for event in told(run, Evaluated)] == [0, 10]


def test_a_published_one_without_a_config_trains_but_not_by_lora(
    folder: Path, tmp_path: Path, contrast: Contrast
) -> None:
    shutil.copytree(folder, tmp_path / "published")
    (tmp_path / "published" / "config.json").unlink()
    words = ("train", "--backbone", tmp_path / "published", "--data", "tiny/pairs.jsonl", "--no-ui")
    assert contrast(*words, "--dry-run").code == 0
    assert contrast("suggest", "tiny/pairs.jsonl", "--backbone", tmp_path / "published", "--no-trial").code == 0
    pytest.importorskip("peft")
    refused(contrast(*words, "--lora", "4"), 2, "the backbone has no linear layers", "use --lora 0")


@pytest.mark.parametrize(("most", "expected"), [(3, 3), (None, 8)])
def test_a_text_is_cut_where_the_tokenizer_of_a_published_one_cuts_it(
    folder: Path, tmp_path: Path, most: int | None, expected: int
) -> None:
    published = Path(shutil.copytree(folder, tmp_path / "published"))
    (published / "sentence_bert_config.json").unlink()
    cut = {"max_length": most, "strategy": "LongestFirst", "stride": 0, "direction": "Right"} if most else None
    edit_json(published / "tokenizer.json", truncation=cut)
    assert load_encoder(published).tokenise([TEXTS[2]]).lengths.tolist() == [expected]
    contract, _ = adapted(read_contract(published), Model(max_length=7))
    assert make_encoder(contract).max_length >= 7, "training may have longer ones"


@pytest.mark.parametrize("names", [[], ["embeddings"]])
def test_a_folder_without_the_matrix_says_so(folder: Path, tmp_path: Path, names: list[str]) -> None:
    for file in ("modules.json", "tokenizer.json"):
        (tmp_path / file).write_bytes((folder / file).read_bytes())
    save_file({name: np.ones((3, 2), np.float32) for name in names}, tmp_path / "model.safetensors")
    with pytest.raises(DataError, match=r"no matrix 'embedding\.weight'"):
        load_encoder(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"has no model\.safetensors"):
        load_encoder(tmp_path)


def test_gradients_reach_the_matrix_and_nothing_is_padded_into_a_mean(folder: Path) -> None:
    encoder = load_encoder(folder)
    table = encoder.tokenise(TEXTS)
    pooled = encoder.after(encoder.pooled(table, np.arange(len(TEXTS))))
    assert_near(pooled.detach().numpy(), encoder.encode(TEXTS))
    (gradient,) = torch.autograd.grad(pooled.sum(), [*encoder.backbone.parameters()])
    assert bool(torch.isfinite(gradient).all()) and bool(gradient.any())
