"""Masking of tokens, and the loss of predicting them."""

import math

import pytest
import torch
from torch import Tensor

from contrastcli.objectives.mlm import mask_tokens, mlm_loss

MASK, VOCABULARY = 103, 1000


def masked(probability: float = 0.15) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """200 sentences of 50 ids, all 500 so that a change shows; the first and the last ten columns are special."""
    ids = torch.full((200, 50), 500)
    special = torch.zeros_like(ids, dtype=torch.bool)
    special[:, 0] = special[:, -10:] = True
    generator = torch.Generator().manual_seed(0)
    hidden, labels = mask_tokens(
        ids, special, probability=probability, mask_id=MASK, vocab_size=VOCABULARY, generator=generator
    )
    return ids, special, hidden, labels


def test_chosen_tokens_are_split_80_10_10() -> None:
    _, _, hidden, labels = masked()
    chosen = labels != -100
    as_mask = (hidden[chosen] == MASK).float().mean().item()
    as_itself = (hidden[chosen] == 500).float().mean().item()
    assert as_mask == pytest.approx(0.8, abs=0.04)
    assert as_itself == pytest.approx(0.1, abs=0.03)
    assert 1 - as_mask - as_itself == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize("probability", [0.15, 0.999999])
def test_labels_are_the_hidden_originals_and_nothing_else_changes_nor_a_special_token(probability: float) -> None:
    ids, special, hidden, labels = masked(probability)
    chosen = labels != -100
    assert not chosen[special].any() and chosen[~special].float().mean() == pytest.approx(probability, abs=0.02)
    assert (labels[chosen] == 500).all()
    assert torch.equal(hidden[~chosen], ids[~chosen])
    assert (ids == 500).all()  # the caller's ids are not written to
    random = hidden[(hidden != 500) & (hidden != MASK)]
    assert random.min() >= 0 and random.max() < VOCABULARY and len(set(random.tolist())) > 50


def test_losses_of_chunks_add_up_to_the_mean_of_the_batch() -> None:
    logits = torch.randn(7, 11, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = torch.tensor([0, 3, 10, 5, 5, 1, 7])
    expected = 0.0
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        expected += (math.log(sum(math.exp(x) for x in row)) - row[target]) / 7
    parts = mlm_loss(logits[:3], targets[:3], total=7) + mlm_loss(logits[3:], targets[3:], total=7)
    assert parts.item() == pytest.approx(expected, rel=1e-9)


def test_a_chunk_without_masked_tokens_is_a_zero_with_a_graph() -> None:
    logits = torch.zeros(0, 11, requires_grad=True)
    loss = mlm_loss(logits, torch.zeros(0, dtype=torch.long), total=0)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert loss.item() == 0.0 and gradient.shape == logits.shape


def test_half_precision_logits_are_summed_in_float32() -> None:
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(0)).bfloat16()
    targets = torch.arange(50)
    assert mlm_loss(logits, targets, total=50).dtype == torch.float32
    assert mlm_loss(logits, targets, total=50) == mlm_loss(logits.float(), targets, total=50)
