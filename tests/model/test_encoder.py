"""Embeddings of many texts: the same whatever way through the encoder is taken."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from contrastcli.data.tokens import TokenTable
from contrastcli.errors import UsageError
from contrastcli.model.bert.graphs import SEEN, Graphs
from contrastcli.model.devices import has_products
from contrastcli.model.encoder import SentenceEncoder, padded
from contrastcli.model.folder import load_encoder
from contrastcli.model.metrics import cosine
from contrastcli.settings.sections import Pooling
from support.contracts import under
from support.rounding import assert_near
from support.tiny import WORDS, Tiny

TEXTS = [" ".join(WORDS[i % 50 : i % 50 + 1 + i % 9]) for i in range(700)]  # 1 to 9 words, in several chunks


@pytest.fixture
def encoder(tiny: Tiny) -> SentenceEncoder:
    return load_encoder(tiny.backbone)


@pytest.fixture
def with_padding(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> SentenceEncoder:
    """The same model, through the encoder that training uses."""
    encoder = load_encoder(tiny.backbone)
    monkeypatch.setattr(encoder, "_prepare", lambda: None)
    return encoder


def test_weights_that_are_wrong_by_a_thousandth_are_no_rounding(
    encoder: SentenceEncoder, with_padding: SentenceEncoder
) -> None:
    right = encoder.encode(TEXTS[:50])
    for parameter in with_padding.backbone.parameters():
        weights = parameter.data.clone()
        parameter.data *= 1.001
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            assert_near(with_padding.encode(TEXTS[:50]), right)
        parameter.data = weights


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_what_rounds_up_a_batch_in_training_changes_nothing(pooling: Pooling, encoder: SentenceEncoder) -> None:
    under(encoder, pooling=pooling)
    table, texts = TokenTable.of(encoder.tokenizer.encode(TEXTS[:11], 32)), np.arange(11)
    encoder.eval()
    plain, (ids, mask) = encoder.pooled(table, texts), padded(encoder, table, texts)
    assert ids.shape == mask.shape == (11, table.lengths.max())
    encoder.train()
    encoder.backbone.eval()  # without dropout
    ids, mask = padded(encoder, table, texts)
    assert ids.shape == mask.shape == (16, 12)
    assert mask.sum() == table.lengths.sum() + 5
    assert_near(encoder.pooled(table, texts), plain)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_text_of_no_tokens_is_zero_and_changes_no_other(pooling: Pooling, encoder: SentenceEncoder) -> None:
    under(encoder, pooling=pooling)
    ids = encoder.tokenizer.encode(TEXTS[:3], 32)
    with_empty = encoder.encode_table(TokenTable.of([*ids[:2], [], ids[2]]))
    assert not with_empty[2].any()
    assert_near(with_empty[[0, 1, 3]], encoder.encode_table(TokenTable.of(ids)))


def test_a_text_of_the_longest_length_is_not_rounded_up(encoder: SentenceEncoder) -> None:
    encoder.train()
    most = encoder.backbone.max_length
    table = TokenTable.of([[encoder.tokenizer.cls_id] * (most - 1)])
    encoder.backbone.max_length = most - 1
    assert padded(encoder, table, np.arange(1))[0].shape == (8, most - 1)


@pytest.mark.skipif(not has_products("bf16"), reason="this CPU multiplies no matrices in bf16")
def test_half_precision_costs_no_more_than_autocast(encoder: SentenceEncoder, with_padding: SentenceEncoder) -> None:
    exact = with_padding.encode(TEXTS)
    encoder.precision = with_padding.precision = "bf16"
    error, usual = (np.abs(e.encode(TEXTS) - exact).mean() for e in (encoder, with_padding))
    assert 0 < error < 1.2 * usual


def test_without_products_of_its_own_a_copy_in_half_precision_encodes(
    encoder: SentenceEncoder, with_padding: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact, encoder.precision = with_padding.encode(TEXTS), "bf16"
    monkeypatch.setattr("contrastcli.model.encoder.has_products", lambda precision: False)  # as on a GPU
    half = encoder.encode(TEXTS)
    assert half.dtype == np.float32
    assert 0.999 < min(cosine(half, exact)) < 1
    assert next(encoder.backbone.parameters()).dtype == torch.float32


@pytest.mark.parametrize("in_place", [True, False])
def test_changed_weights_change_the_embeddings(encoder: SentenceEncoder, in_place: bool) -> None:
    before = encoder.encode(TEXTS[:2])
    with torch.no_grad():
        for parameter in encoder.parameters():
            if in_place:
                parameter.add_(0.1)
            else:
                parameter.data = parameter + 0.1
    fresh = copy.deepcopy(encoder.backbone)
    after = encoder.encode(TEXTS[:2])
    encoder.backbone = fresh
    assert np.abs(after - before).max() > 1e-3
    assert (encoder.encode(TEXTS[:2]) == after).all()


def test_an_encoder_that_has_encoded_is_copied_and_pickled(encoder: SentenceEncoder) -> None:
    before = encoder.encode(TEXTS)
    for one in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert np.array_equal(one.encode(TEXTS), before)


def test_an_encoder_in_training_is_so_after_encoding_that_fails_too(encoder: SentenceEncoder) -> None:
    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    encoder.train()
    with pytest.raises(KeyboardInterrupt):
        encoder.encode(TEXTS[:2], on_progress=interrupt)
    assert encoder.training


@pytest.mark.skipif(not has_products("int8"), reason="this CPU multiplies no matrices in int8")
def test_int8_stays_near_and_an_embedding_does_not_depend_on_the_other_texts(
    encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of words that the tiny model knows.
    monkeypatch.setattr("contrastcli.model.encoder.usual_texts", lambda: TEXTS[:60])
    exact, encoder.precision = encoder.encode(TEXTS), "int8"
    together, alone = encoder.encode(TEXTS), np.stack([encoder.encode([text])[0] for text in TEXTS[:20]])
    cosines = cosine(together, exact)
    assert 0.99 < cosines.mean() < 0.99999 and cosines.min() > 0.98
    assert cosine(together[:20], alone).min() > 0.9999


def test_int8_is_refused_where_it_is_not_supported(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    encoder.precision = "int8"
    with pytest.raises(UsageError, match="int8 needs a CPU"):
        encoder.encode(TEXTS[:1])
    monkeypatch.setattr(SentenceEncoder, "device", torch.device("mps"))
    with pytest.raises(UsageError, match="int8 needs a CPU"):
        encoder._prepare()


def test_of_an_encoder_that_is_frozen_there_are_no_cuda_graphs(encoder: SentenceEncoder) -> None:
    """Nor would a CPU have any."""
    graphs = Graphs(encoder.requires_grad_(False))
    inputs = padded(encoder, encoder.tokenise(TEXTS[:4]), np.arange(4))
    assert [graphs.embed(*inputs, False, "fp32") for _ in range(SEEN + 2)] == [None] * (SEEN + 2)


@pytest.mark.parametrize(
    ("texts", "kind", "what"),
    [
        ("a text", None, "not one text"),
        ((text for text in TEXTS), None, "not a generator"),
        (np.array([TEXTS[:2]]), None, "not a ndarray"),
        ({"a text": 1}, None, "not a dict"),
        (["a text", None], None, "number 1 is None"),
        (["a text"], "qury", "no kind of text 'qury', but query, document"),
    ],
)
def test_what_is_no_list_of_texts_is_refused_by_name(tiny: Tiny, texts: Any, kind: Any, what: str) -> None:
    with pytest.raises((TypeError, ValueError), match=what):
        load_encoder(tiny.backbone).encode(texts, kind)
