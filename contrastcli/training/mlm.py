"""The masked-language-model term beside a contrastive objective, chunk by chunk.

Masks are drawn for the whole batch beforehand, and every chunk's loss is divided by the batch's count of masked
tokens, so that the gradient is that of one mean over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from contrastcli.data.batching import Indices
from contrastcli.data.tokens import TokenTable
from contrastcli.errors import DataError
from contrastcli.model.backbone import load_language_model_head
from contrastcli.model.encoder import Precision, SentenceEncoder, autocast, pad
from contrastcli.objectives.mlm import mask_tokens, mlm_loss
from contrastcli.settings.catalogue import ObjectiveSettings
from contrastcli.training.seeds import MASKS, seed_of


def load_mlm(folder: Path, encoder: SentenceEncoder, objective: ObjectiveSettings) -> MaskedLanguageModel | None:
    """The term with the language-model head of a backbone's folder, or None where the objective gives it no weight.

    Raises DataError where the backbone has no such head or the tokenizer no mask.
    """
    weight = getattr(objective, "mlm_weight", 0.0)
    if not weight:
        return None
    if encoder.tokenizer.mask_id < 0:
        raise DataError(f"the tokenizer in {folder} has no mask token", "set --mlm-weight 0")
    head = load_language_model_head(folder, encoder.backbone)
    return MaskedLanguageModel(head, encoder, weight, getattr(objective, "mlm_probability", 0.15))


@dataclass
class Masks:
    """Drawn masks of a batch: per chunk the masked ids, the mask of real tokens and the labels, all (B, T).

    `loss` grows to the batch's mean as the chunks are worked through.
    """

    chunks: list[tuple[Tensor, Tensor, Tensor]]
    total: int
    loss: Tensor


class MaskedLanguageModel(nn.Module):
    """The backbone's own language-model head and the settings of the term (SimCSE Section 3, SimACE Table 13)."""

    def __init__(self, head: nn.Module, encoder: SentenceEncoder, weight: float, probability: float) -> None:
        super().__init__()
        self.head = head
        self.weight = weight
        self.probability = probability
        tokenizer = encoder.tokenizer
        self._pad_id, self._mask_id = tokenizer.pad_id, tokenizer.mask_id
        self._vocab_size = encoder.backbone.vocab_size
        self._special = torch.tensor(sorted(tokenizer.special_ids))

    def draw(self, table: TokenTable, texts: Indices, pieces: Sequence[Indices], run_seed: int, step: int) -> Masks:
        """Masks for every chunk of a batch, the same on every process."""
        generator = torch.Generator().manual_seed(seed_of(run_seed, step, MASKS))
        drawn: list[tuple[Tensor, Tensor, Tensor]] = []
        for piece in pieces:
            ids, real = pad(table, texts[piece], self._pad_id, torch.device("cpu"))
            masked, labels = mask_tokens(
                ids,
                torch.isin(ids, self._special) | ~real,
                probability=self.probability,
                mask_id=self._mask_id,
                vocab_size=self._vocab_size,
                generator=generator,
            )
            drawn.append((masked, real, labels))
        total = sum(int((labels >= 0).sum()) for _, _, labels in drawn)
        return Masks(drawn, total, torch.zeros((), device=next(self.head.parameters()).device))

    def backward(self, encoder: SentenceEncoder, masks: Masks, number: int, precision: Precision) -> None:
        """Add a chunk's part of the term to the gradients and to `masks.loss`."""
        masked, real, labels = (t.to(encoder.device) for t in masks.chunks[number])
        wanted = labels >= 0  # (B, T)
        with autocast(encoder.device, precision):
            hidden = encoder.backbone(masked, real).last[wanted]  # (M, d)
            logits = self.head(hidden)  # (M, V)
        loss = mlm_loss(logits, labels[wanted], masks.total)
        torch.autograd.backward(self.weight * loss)
        masks.loss += loss.detach()
