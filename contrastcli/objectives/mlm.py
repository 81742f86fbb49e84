"""The masked-language-model term that SimCSE and SimACE may add ("with MLM", SimACE Table 13).

Masking as in BERT: Devlin et al., 2019, https://arxiv.org/abs/1810.04805, Section 3.1.
"""

import torch
from torch import Tensor, nn

from contrastcli.objectives.functional import promoted

UNMASKED = -100
"""The label of a token that is not predicted."""


def mask_tokens(
    ids: Tensor, special: Tensor, *, probability: float, mask_id: int, vocab_size: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Mask tokens for prediction: (B, T) ids → (B, T) ids with some replaced, (B, T) labels.

    Each token is chosen with `probability` unless it is `special`, which includes padding. Of the chosen, 80 % become
    `mask_id`, 10 % a random token, 10 % stay; their labels are the original ids, all other labels are −100.
    """
    draw = torch.rand(ids.shape, generator=generator, device=generator.device).to(ids.device)  # (B, T)
    other = torch.randint(vocab_size, ids.shape, generator=generator, device=generator.device).to(ids.device)
    chosen = (draw < probability) & ~special
    replaced = torch.where(draw < 0.8 * probability, mask_id, torch.where(draw < 0.9 * probability, other, ids))
    return torch.where(chosen, replaced, ids), torch.where(chosen, ids, UNMASKED)


def mlm_loss(logits: Tensor, targets: Tensor, total: int) -> Tensor:
    """The cross-entropy of M masked tokens, divided by `total`: (M, V) logits, (M,) ids → scalar.

    `total` counts the masked tokens of the whole batch, so that the losses of its chunks add up to the batch's
    mean. Without a masked token it is 0 and keeps the graph.
    """
    return nn.functional.cross_entropy(promoted(logits), targets, reduction="sum") / max(total, 1)
