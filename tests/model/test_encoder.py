"""Embeddings of many texts: the same whatever way through the encoder is taken."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.settings.sections import Pooling
from support.tiny import WORDS, Tiny

TEXTS = [" ".join(WORDS[i % 50 : i % 50 + 1 + i % 9]) for i in range(700)]  # 1 to 9 words, in several chunks


@pytest.fixture
def encoder(tiny: Tiny) -> SentenceEncoder:
    return load_encoder(tiny.backbone)


@pytest.fixture
def padded(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> SentenceEncoder:
    """The same model, through the encoder that training uses."""
    encoder = load_encoder(tiny.backbone)
    monkeypatch.setattr(encoder, "_pack", lambda precision: None)
    return encoder


@pytest.mark.parametrize("pooling", ["cls", "mean", "mean-no-cls", "first-last", "last-mean"])
def test_embeddings_are_those_of_the_padded_encoder(
    pooling: Pooling, encoder: SentenceEncoder, padded: SentenceEncoder
) -> None:
    encoder.pooling = padded.pooling = pooling
    assert np.abs(encoder.encode(TEXTS) - padded.encode(TEXTS)).max() < 1e-5


def test_half_precision_costs_no_more_than_autocast(encoder: SentenceEncoder, padded: SentenceEncoder) -> None:
    exact = padded.encode(TEXTS)
    error, usual = (np.abs(e.encode(TEXTS, precision="bf16") - exact).mean() for e in (encoder, padded))
    assert 0 < error < 1.2 * usual


def test_the_same_texts_have_the_same_bits(encoder: SentenceEncoder) -> None:
    assert (encoder.encode(TEXTS) == encoder.encode(TEXTS)).all()


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


def test_training_frees_the_copy_of_the_weights(encoder: SentenceEncoder) -> None:
    encoder.encode(TEXTS[:2])
    encoder.train()
    assert encoder._packed is None
