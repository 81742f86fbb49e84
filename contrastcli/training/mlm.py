"""The masked-language-model term next to a contrastive objective, chunk by chunk.

Masks are drawn for the whole batch beforehand, and every chunk's loss is divided by the batch's count of masked
tokens, so that the gradient is that of one mean over the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.model.backbone import load_language_model_head
from contrastcli.model.encoder import autocast, pad
from contrastcli.model.locate import resolve
from contrastcli.objectives.mlm import mask_tokens, mlm_loss
from contrastcli.training.auxiliary import Auxiliary, Context
from contrastcli.training.batch import Batch, Chunk
from contrastcli.training.seeds import MASKS, MLM, seed_of, set_seed

Masked = tuple[Tensor, Tensor, Tensor]
"""A chunk's token ids with some masked, the mask of real tokens, and the labels, all (B, T)."""


class MaskedTokens(Auxiliary):
    """The backbone's own language-model head, trained on masked tokens (SimCSE Section 3, SimACE Table 13)."""

    name = "mlm"

    def __init__(self, weight: float, probability: float) -> None:
        self.weight = weight
        self.probability = probability

    def load(self, context: Context) -> None:
        """Load the head of the backbone's folder. Raises DataError for a backbone without, or without a mask token."""
        folder, encoder = resolve(context.config.model.backbone).folder(), context.encoder
        if encoder.tokenizer.mask_id < 0:
            raise DataError(f"the tokenizer in {folder} has no mask token", "set --mlm-weight 0")
        self.context = context
        self.head = load_language_model_head(folder, encoder.backbone)
        self.module = nn.ModuleDict({"head": self.head})
        self.special = torch.tensor(sorted(encoder.tokenizer.special_ids))

    def term(self, batch: Batch, chunks: Sequence[Chunk]) -> MaskedTerm:
        """The term with masks for every chunk of the encoder, the same on every process."""
        generator = torch.Generator().manual_seed(seed_of(self.context.config.train.seed, batch.step, MASKS))
        own = [chunk for chunk in chunks if chunk.encoder is self.context.encoder]
        return MaskedTerm(self, batch.step, {c.number: self._mask(batch, c, generator) for c in own})

    def _mask(self, batch: Batch, chunk: Chunk, generator: torch.Generator) -> Masked:
        encoder = self.context.encoder
        ids, real = pad(batch.table, chunk.texts, encoder.tokenizer.pad_id, torch.device("cpu"))
        masked, labels = mask_tokens(
            ids,
            torch.isin(ids, self.special) | ~real,
            probability=self.probability,
            mask_id=encoder.tokenizer.mask_id,
            vocab_size=encoder.backbone.vocab_size,
            generator=generator,
        )
        return masked, real, labels


class MaskedTerm:
    """The term of one batch: the masked chunks by number, and the loss of those that `backward` was called for."""

    def __init__(self, owner: MaskedTokens, step: int, chunks: dict[int, Masked]) -> None:
        self.weight = owner.weight
        self.chunks = chunks
        self.total = sum(int((labels >= 0).sum()) for _, _, labels in chunks.values())
        self.loss = torch.zeros((), device=owner.context.encoder.device)
        self._owner = owner
        self._step = step

    def backward(self, chunk: Chunk) -> None:
        """Add a chunk's part of the mean over the batch to the gradients and to `loss`."""
        if chunk.number not in self.chunks:
            return
        context, head = self._owner.context, self._owner.head
        set_seed(context.config.train.seed, self._step, MLM, chunk.number)  # whatever was drawn before this chunk
        masked, real, labels = (t.to(context.encoder.device) for t in self.chunks[chunk.number])
        wanted = labels >= 0  # (B, T)
        with autocast(context.encoder.device, context.precision):
            hidden = context.encoder.backbone(masked, real).last[wanted]  # (M, d)
            logits = head(hidden)  # (M, V)
        loss = mlm_loss(logits, labels[wanted], self.total)
        torch.autograd.backward(self.weight * loss)
        self.loss += loss.detach()
