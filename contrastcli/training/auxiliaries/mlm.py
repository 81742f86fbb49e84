"""The masked-language-model term next to a contrastive objective, chunk by chunk.

Masks are drawn for the whole batch beforehand, and every chunk's loss is divided by the batch's count of masked
tokens, so that the gradient is that of one mean over the batch.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from contrastcli.errors import DataError
from contrastcli.model.adapters import base_folder
from contrastcli.model.backbone import load_language_model_head
from contrastcli.model.encoder import SentenceEncoder, autocast, padded
from contrastcli.model.locate import resolve
from contrastcli.objectives.functional import to_device
from contrastcli.objectives.mlm import mask_tokens, mlm_loss
from contrastcli.settings.sections import Model
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, AuxiliaryContext, Term
from contrastcli.training.batch import MASKS, MLM, Batch, Chunk, seed_of, set_seed

Masked = tuple[Tensor, Tensor, Tensor]
"""A chunk's token ids with some masked, the mask of real tokens, and the labels, all (B, T)."""


class MaskedTokens(Auxiliary):
    """The backbone's own language-model head, trained on masked tokens (SimCSE Section 3, SimACE Table 13)."""

    name = "mlm"

    def __init__(self, weight: float, probability: float) -> None:
        self.weight = weight
        self.probability = probability

    def check(self, model: Model, encoder: SentenceEncoder) -> None:
        """Load the head. Raises DataError for a backbone without, or without a mask token."""
        # Of an adapter the base has the head.
        folder = base_folder(resolve(model.backbone).folder())
        if encoder.tokenizer.mask_id < 0:
            raise DataError(f"the tokenizer in {folder} has no mask token", "set --mlm-weight 0")
        self.head = load_language_model_head(folder, encoder.backbone)

    def load(self, context: AuxiliaryContext) -> None:
        self.check(context.config.model, context.encoder)
        self.context = context
        self.module = nn.ModuleDict({"head": self.head})
        self.special = torch.tensor(sorted(context.encoder.tokenizer.special_ids))

    def mask(self, batch: Batch, chunks: Sequence[Chunk]) -> dict[int, Masked]:
        """Masked tokens for every chunk of the encoder, by its number; the same on every process."""
        encoder, masked = self.context.encoder, dict[int, Masked]()
        generator = torch.Generator().manual_seed(seed_of(self.context.config.train.seed, batch.step, MASKS))
        for chunk in chunks:
            # A template is no text.
            texts = chunk.texts[chunk.places < batch.count]
            if chunk.encoder is encoder and len(texts):
                ids, real = padded(encoder, batch.table, texts)
                hidden, labels = mask_tokens(
                    ids,
                    torch.isin(ids, self.special) | ~real,
                    probability=self.probability,
                    mask_id=encoder.tokenizer.mask_id,
                    vocab_size=encoder.backbone.vocab_size,
                    generator=generator,
                )
                masked[chunk.number] = (hidden, real, labels)
        return masked

    def term(self, batch: Batch, chunks: Sequence[Chunk]) -> Term:
        """The mean cross-entropy over the masked tokens of a batch."""
        masked, context = self.mask(batch, chunks), self.context
        device = context.encoder.device
        total = sum(int((labels >= 0).sum()) for _, _, labels in masked.values())

        def backward(chunk: Chunk) -> Tensor:
            if chunk.number not in masked:
                return torch.zeros((), device=device)
            # The masks do not depend on what was drawn before this chunk.
            set_seed(context.config.train.seed, batch.step, MLM, chunk.number)
            ids, real, labels = masked[chunk.number]
            # Counted on the CPU, which waits for nothing.
            chosen = (labels.flatten() >= 0).nonzero().squeeze(1)
            with autocast(device, context.precision):
                hidden = context.encoder.backbone(to_device(ids, device), to_device(real, device)).last  # (B, T, d)
                logits = self.head(hidden.flatten(0, 1)[to_device(chosen, device)])  # (M, V)
            loss = mlm_loss(logits, to_device(labels.flatten()[chosen], device), total)
            torch.autograd.backward(self.weight * loss)
            return loss.detach()

        return backward
