"""One step's gradient: the loss over a whole contrastive batch, whatever of it fits into memory at once.

The batch is cut into chunks of texts under a token budget. If all of their graphs fit, they are kept; else the
embeddings are first computed without a graph, and each chunk is run again to carry its gradient (GradCache: Gao et
al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"). Either way the loss sees leaf
embeddings, and their gradient is handed to the chunks, so that both ways differ in nothing but memory and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from contrastcli.data.batching import Indices, chunks
from contrastcli.model.encoder import Precision, SentenceEncoder
from contrastcli.training.batch import Batch
from contrastcli.training.distributed import World
from contrastcli.training.mlm import MaskedLanguageModel
from contrastcli.training.objective import Loss
from contrastcli.training.seeds import CHUNK, LOSS, MLM, set_seed
from contrastcli.training.teachers import Teachers


@dataclass(frozen=True)
class Outcome:
    """What a step found: loss and its parts (scalars) and the views that the loss saw, all detached."""

    loss: Tensor
    parts: dict[str, Tensor]
    views: dict[str, Tensor]


@dataclass
class Stepper:
    """Computes the gradient of one batch after another."""

    encoder: SentenceEncoder
    peer: SentenceEncoder | None
    teachers: Teachers | None
    loss: Loss
    heads: nn.ModuleDict
    projection: nn.Module
    mlm: MaskedLanguageModel | None
    precision: Precision
    run_seed: int
    token_budget: int
    world: World

    def backward(self, batch: Batch) -> Outcome:
        """Leave the gradient of the batch's loss in every parameter."""
        pieces, keep = self.cut(batch)
        return self.backward_in(batch, pieces, keep)

    def cut(self, batch: Batch) -> tuple[list[Indices], bool]:
        """The chunks of a batch, and whether all of their graphs fit into the budget.

        Chunks take a quarter of the budget: small ones waste less on padding, and what running one needs beside its
        graph stays small too. Each goes through one encoder: those of the peer are the encoder's once more.
        """
        lengths = batch.table.lengths[batch.texts]
        pieces = chunks(lengths[: batch.own], self.token_budget // 4)
        pieces = [piece + start for start in range(0, len(batch.texts), batch.own) for piece in pieces]
        padded = sum(len(piece) * int(lengths[piece[0]]) for piece in pieces)
        return pieces, padded <= self.token_budget

    def backward_in(self, batch: Batch, pieces: Sequence[Indices], keep_graph: bool) -> Outcome:
        """`backward` over given chunks, with their graphs kept or computed again."""
        own = [(n, piece) for n, piece in enumerate(pieces) if n % self.world.size == self.world.rank]
        kept: dict[int, Tensor] = {}
        leaf = torch.zeros(len(batch.texts), self.encoder.backbone.width, device=self.encoder.device)  # (V·N, d)
        with torch.set_grad_enabled(keep_graph):
            for number, piece in own:
                pooled = self._embed(batch, number, piece)
                leaf[torch.from_numpy(piece)] = pooled.detach()
                if keep_graph:
                    kept[number] = pooled
        self.world.sum(leaf)
        outcome, gradient = self._loss(batch, leaf)
        masks = self.mlm.draw(batch.table, batch.texts, pieces, self.run_seed, batch.step) if self.mlm else None
        for number, piece in own:
            pooled = kept.pop(number) if keep_graph else self._embed(batch, number, piece)
            torch.autograd.backward(pooled, gradient[torch.from_numpy(piece)])
            if self.mlm and masks:
                set_seed(self.run_seed, batch.step, MLM, number)  # whatever was drawn before this chunk
                self.mlm.backward(self.encoder, masks, number, self.precision)
        if self.mlm and masks:
            outcome.parts["mlm"] = self.world.sum(masks.loss)
            outcome = Outcome(outcome.loss + self.mlm.weight * masks.loss, outcome.parts, outcome.views)
        self.world.sum_gradients(self.encoder.backbone.parameters())
        if self.peer:
            self.world.sum_gradients(self.peer.parameters())
        if self.mlm:
            self.world.sum_gradients(self.mlm.parameters())
        return outcome

    def _embed(self, batch: Batch, number: int, piece: Indices) -> Tensor:
        set_seed(self.run_seed, batch.step, CHUNK, number)  # the same dropout in both passes over a chunk
        encoder = self.peer if self.peer and piece[0] >= batch.own else self.encoder
        return encoder.pooled(batch.table, batch.texts[piece], self.precision)  # (chunk, d)

    def _loss(self, batch: Batch, leaf: Tensor) -> tuple[Outcome, Tensor]:
        """Loss over the whole batch, and its gradient by the pooled embeddings (V·N, d); heads get theirs."""
        leaf.requires_grad_()
        set_seed(self.run_seed, batch.step, LOSS)
        views = dict(zip(batch.views, self.projection(leaf).chunk(len(batch.views)), strict=True))  # (N, d) each
        given = self.teachers.views(batch.rows, leaf.device) if self.teachers else {}
        loss, parts = self.loss(views | given, batch.rows, self.heads)
        torch.autograd.backward(loss)
        gradient = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
        return Outcome(loss.detach(), parts, {name: z.detach() for name, z in views.items()}), gradient
