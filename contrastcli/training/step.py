"""One step's gradient: the loss over a whole contrastive batch, even where only a part of it fits into memory.

The batch is cut into chunks of texts under a token budget. If all of their graphs fit, they are kept; else the
embeddings are first computed without a graph, and each chunk is run again to carry its gradient (GradCache: Gao et
al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"). Either way the loss sees leaf
embeddings, and their gradient is handed to the chunks, so that both ways differ in nothing but memory and time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from contrastcli.data.batching import even_chunks
from contrastcli.model.bert.graphs import Graphs
from contrastcli.model.encoder import CPU_CHUNK, SentenceEncoder, autocast
from contrastcli.objectives.functional import to_device
from contrastcli.objectives.matryoshka import Loss
from contrastcli.settings.sections import Precision
from contrastcli.training.auxiliaries.auxiliary import Auxiliary
from contrastcli.training.batch import LOSS, Batch, Chunk, set_seed
from contrastcli.training.distributed import World
from contrastcli.training.passes import PARTS, Passes

LEAST_CHUNK = 512
"""Tokens on a CPU that are worth adding up the gradients of all weights once more."""


@dataclass
class Outcome:
    """The loss of a step and its parts (scalars), and the views that the encoders made, all detached."""

    loss: Tensor
    parts: dict[str, Tensor]
    views: dict[str, Tensor]


@dataclass(kw_only=True)
class Stepper:
    """Computes the gradient of one batch after another."""

    encoder: SentenceEncoder
    extras: nn.ModuleDict
    """What is dropped after training: the loss's heads, a projection, and the modules of the auxiliaries."""
    heads: nn.ModuleDict
    projection: nn.Module
    """The module between pooling and loss: the encoder's own dense layer, or one for training only."""
    auxiliaries: Sequence[Auxiliary]
    loss: Loss
    precision: Precision
    run_seed: int
    token_budget: int
    world: World
    cuda_graphs: Graphs | None = None
    mark: Callable[[str], None] = lambda what: None
    """Is told what the time since the mark before went to."""
    _dense: dict[nn.Parameter, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """Gradients and the rows of them that are not 0."""

    @cached_property
    def encoders(self) -> dict[str, SentenceEncoder]:
        """Every encoder in training, by the prefix of its views' names."""
        encoders = {"": self.encoder}
        for auxiliary in self.auxiliaries:
            encoders |= auxiliary.encoders()
        return encoders

    def shrink(self, token_budget: int) -> None:
        """Continue with fewer tokens at once, since memory ran out, and free what was kept for speed."""
        self.token_budget = token_budget
        if self.cuda_graphs is not None:
            self.cuda_graphs.release()
        torch.cuda.empty_cache()

    def cut(self, batch: Batch) -> tuple[list[Chunk], bool]:
        """The chunks of a batch, and whether the graphs of a process's share of them fit into the budget.

        Chunks take a quarter of the budget at most: small ones waste less on padding, and what running one needs
        besides its graph stays small too. They are alike in size, for threads and processes to have the same to do.
        On a CPU larger ones than CPU_CHUNK are not faster.
        """
        places = np.flatnonzero(batch.texts >= 0)
        texts = batch.texts[places]
        lengths = batch.table.lengths[texts]
        most = max(1, self.token_budget // 4)
        if self.encoder.device.type == "cpu":
            parts = even_chunks(lengths, min(CPU_CHUNK, most), PARTS, LEAST_CHUNK)
        else:
            parts = even_chunks(lengths, most, self.world.size, 1)
        chunks: list[Chunk] = []
        for number, encoder in enumerate(self.encoders.values()):
            first = number * len(batch.texts)
            chunks += [Chunk(len(chunks) + n, encoder, texts[p], places[p] + first) for n, p in enumerate(parts)]
        padded = [len(chunk.texts) * int(batch.table.lengths[chunk.texts[0]]) for chunk in chunks]
        shares = [sum(padded[rank :: self.world.size]) for rank in range(self.world.size)]
        return chunks, max(shares) <= self.token_budget

    def backward(
        self, batch: Batch, *, keep_graphs: bool | None = None, before_chunk: Callable[[], None] = lambda: None
    ) -> Outcome:
        """Leave the gradient of the batch's loss in every parameter.

        Graphs are kept where all fit into the budget, unless `keep_graphs` decides. `before_chunk` is called before
        each chunk of either pass, and may raise.
        """
        chunks, all_fit = self.cut(batch)
        keep_graphs = all_fit if keep_graphs is None else keep_graphs
        local = [chunk for chunk in chunks if chunk.number % self.world.size == self.world.rank]
        device = self.encoder.device
        passes = Passes(
            batch, local, device, self.precision, self.run_seed, keep_graphs, before_chunk, self.cuda_graphs
        )
        with self.world.fail_together():
            pooled = passes.forward()
            leaf = torch.zeros(len(self.encoders) * len(batch.texts), self.encoder.backbone.width, device=device)
            for chunk in local:
                leaf[to_device(torch.from_numpy(chunk.places), device)] = pooled[chunk.number]  # (E·V·N, d)
        self.world.sum(leaf)
        self.mark("forward")
        with self.world.fail_together():
            outcome, gradient = self._loss(batch, leaf)
            self.mark("loss")
            passes.backward(gradient)
            terms = {one: term for one in self.auxiliaries if (term := one.term(batch, chunks))}
            values = {one: torch.zeros((), device=device) for one in terms}
            with autocast(device, self.precision):
                for chunk in local:
                    for one, term in terms.items():
                        before_chunk()
                        values[one] += term(chunk)
        self._sum_gradients()
        self.mark("backward")
        for one, value in values.items():
            outcome.parts[one.name] = self.world.sum(value)
            outcome.loss = outcome.loss + one.weight * value
        return outcome

    def _sum_gradients(self) -> None:
        """Sum what the chunks left, over processes too. Sparse gradients, the word embedding's, become dense.

        Their memory is kept: to fill that of a new one with zeros takes longer than everything else here.
        """
        heads = [*self.heads.parameters(), *self.projection.parameters()]
        self.world.broadcast_tensors([parameter.grad for parameter in heads if parameter.grad is not None])
        for module in (self.encoder.backbone, *(one.module for one in self.auxiliaries if one.module)):
            self.world.sum_gradients(module.parameters())
            for parameter in module.parameters():
                if parameter.grad is not None and (sparse := parameter.grad).is_sparse:
                    dense, used = self._dense.get(parameter) or (torch.zeros_like(parameter), sparse._indices()[0])
                    self._dense[parameter] = dense, sparse._indices()[0]
                    parameter.grad = dense.index_fill_(0, used, 0).add_(sparse)

    def _loss(self, batch: Batch, leaf: Tensor) -> tuple[Outcome, Tensor]:
        """Loss over the whole batch, and its gradient by the pooled embeddings (E·V·N, d); heads get theirs.

        Where there are templates, those of each encoder follow its V·N, and are subtracted.
        """
        leaf.requires_grad_()
        set_seed(self.run_seed, batch.step, LOSS)
        names = [prefix + view for prefix in self.encoders for view in batch.views]
        pooled: Tensor = leaf
        if batch.templates is not None:
            of_encoder = leaf.view(len(self.encoders), -1, leaf.shape[1])
            bias = of_encoder[:, to_device(torch.from_numpy(batch.templates), leaf.device)]
            pooled = (of_encoder[:, : len(batch.templates)] - bias).flatten(0, 1)  # (E·V·N, d)
        views = dict(zip(names, self.projection(pooled).chunk(len(names)), strict=True))  # (N, d) each
        detached = {name: view.detach() for name, view in views.items()}
        for auxiliary in self.auxiliaries:
            views |= auxiliary.views(batch.rows, leaf.device)
        loss, parts = self.loss(views, batch.rows, self.heads)
        torch.autograd.backward(loss)
        gradient = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
        return Outcome(loss.detach(), parts, detached), gradient
