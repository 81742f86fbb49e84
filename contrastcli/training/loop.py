"""The loop: batches → gradient → update, and every once in a while an event, an evaluation, a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from msgspec.structs import replace
from torch import Tensor

from contrastcli.data.batching import Indices
from contrastcli.errors import DivergedError, RunError
from contrastcli.files import atomic_write
from contrastcli.model.devices import is_out_of_memory, memory_mb
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.events import Event, Note, Saved, Step
from contrastcli.settings.config import Config
from contrastcli.training import angles, checkpoint
from contrastcli.training.batch import Batch, Batcher
from contrastcli.training.checkpoint import Position
from contrastcli.training.clock import Clock
from contrastcli.training.dev import COLLAPSE, DevSet
from contrastcli.training.optim import gradient_norm, set_rate
from contrastcli.training.plan import Plan
from contrastcli.training.step import Outcome, Stepper

Emit = Callable[[Event], None]
SMALLEST_BUDGET = 64
"""Tokens. A step that needs more memory than this many take fails."""


@dataclass(kw_only=True)
class Trainer:
    """A run in memory."""

    run: Path
    plan: Plan
    stepper: Stepper
    optimizer: torch.optim.Optimizer
    position: Position
    batcher: Batcher
    dev: DevSet | None
    emit: Emit
    should_stop: Callable[[], bool]
    _bad_step: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.long))

    @property
    def encoder(self) -> SentenceEncoder:
        """What is trained, and kept."""
        return self.stepper.encoder

    @property
    def config(self) -> Config:
        return self.plan.config

    def train(self) -> str:
        """Train to the end, or until asked to stop; returns "finished" or "stopped". Raises DivergedError."""
        if self.position.step == 0:
            self._evaluate_untrained()
        self.encoder.train()
        clock = Clock()
        for step, epoch, rows in self.plan.batches(self.position.step):
            if self._out_of_patience():
                text = f"stopped early: {self.config.dev.patience} evaluations without a best"
                self.emit(Note(step=self.position.step, text=text))
                return "finished"
            lr = set_rate(self.optimizer, self.config.train, step, self.plan.steps)
            batch = self.batcher(step, rows)
            outcome, norm = self.update(batch)
            self.position.step = step
            clock.tick(len(batch.texts) * len(self.stepper.encoders))
            last = step == self.plan.steps
            if last or step == 1 or step % self.config.train.log_every == 0:
                self._check()
                self._log(batch, outcome, norm, lr, epoch, clock)
            if last or self._is_due(step):
                self._check()
                self._evaluate_and_save(last)
                clock.restart()
            if not last and self.stepper.world.any(self.should_stop()):
                self._check()
                self._save(best=False)
                return "stopped"
        return "finished"

    def update(self, batch: Batch) -> tuple[Outcome, Tensor]:
        """One optimiser update, with a smaller token budget where memory runs out."""
        self.optimizer.zero_grad()
        try:
            outcome = self.stepper.backward(batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            outcome = None
        if outcome is None:  # outside the handler, whose traceback would keep the failed step's tensors alive
            self._shrink(batch.step)
            return self.update(batch)
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm = gradient_norm(parameters, self.config.train.clip)
        self._watch(batch.step, outcome.loss, norm)
        self.optimizer.step()
        return outcome, norm

    def _shrink(self, step: int) -> None:
        """Halve the token budget. Raises RunError at the smallest one, and where other processes cannot follow."""
        budget = self.stepper.token_budget // 2
        if self.stepper.world.size > 1:
            hint = f"continue with fewer: contrast train --resume {self.run.name} --token-budget {budget}"
            raise RunError(f"memory ran out with {2 * budget} tokens at once", hint)
        if budget < SMALLEST_BUDGET:
            raise RunError(f"memory ran out with {2 * budget} tokens at once", "use a smaller batch or backbone")
        self.stepper.token_budget = budget
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        self.emit(Note(step=step, text=f"memory ran out: the step starts again with at most {budget} tokens at once"))

    def _watch(self, step: int, loss: Tensor, norm: Tensor) -> None:
        """Remember the first step whose loss or gradient is not finite, without waiting for the device."""
        bad = ~(loss.isfinite() & norm.isfinite())
        seen = self._bad_step.to(loss.device)
        self._bad_step = torch.where((seen == 0) & bad, step, seen)

    def _check(self) -> None:
        """Stop a run that diverged, and write down the batch that it diverged on. Waits for the device."""
        step = int(self._bad_step)
        if not step:
            return
        rows = next(rows for number, _, rows in self.plan.batches(step - 1) if number == step)
        path = self.run / "diverged.json"
        if self.stepper.world.is_main:
            atomic_write(path, (json.dumps(self._texts(step, rows), ensure_ascii=False, indent=1) + "\n").encode())
        raise DivergedError(
            f"the loss or its gradient is not a finite number at step {step}; its batch is in {path}",
            "lower --lr, raise --tau or set --clip 1; the last good checkpoint is kept",
        )

    def _texts(self, step: int, rows: Indices) -> dict[str, object]:
        corpus = self.plan.corpus
        views = {view: [corpus.texts[i] for i in texts[rows]] for view, texts in corpus.views.items()}
        return {"step": step, "rows": rows.tolist(), **views}

    def _log(self, batch: Batch, outcome: Outcome, norm: Tensor, lr: float, epoch: float, clock: Clock) -> None:
        self.emit(
            Step(
                step=batch.step,
                loss=float(outcome.loss),
                parts={name: float(part) for name, part in outcome.parts.items()},
                lr=lr,
                grad_norm=float(norm),
                epoch=round(epoch, 4),
                sentences_per_s=clock.rate(),
                seconds_left=clock.seconds_left(self.plan.steps - batch.step),
                memory_mb=round(memory_mb(self.encoder.device), 1),
            )
        )
        self.emit(angles.measure(batch.step, outcome.views, batch.rows, self._margin_deg()))

    def _margin_deg(self) -> float:
        """The margin of the objective, 0 where it is no angle."""
        bounds = self.config.objective.bounds().get("margin")
        return float(self.config.flat()["objective.margin"]) if bounds and bounds.unit == "degrees" else 0.0

    def _is_due(self, step: int) -> bool:
        return step % self.config.dev.every == 0 or self._save_is_due(step)

    def _save_is_due(self, step: int) -> bool:
        return step % (self.config.train.save_every or self.config.dev.every) == 0

    def _evaluate_and_save(self, last: bool) -> None:
        """Evaluate if it is time; save if it is time, at a new best and at the end."""
        step = self.position.step
        best = self.dev is not None and (last or step % self.config.dev.every == 0) and self._evaluate(self.dev)
        if best or last or self._save_is_due(step) or self._out_of_patience():
            self._save(best=best)

    def _evaluate_untrained(self) -> None:
        """The score before the first update: shown, but no candidate for the best."""
        if self.dev is not None:
            self.emit(self.dev.evaluate(self.encoder, 0))

    def _evaluate(self, dev: DevSet) -> bool:
        """Measure the dev set; whether it is the best so far."""
        event = dev.evaluate(self.encoder, self.position.step)
        before, score = self.position.best, event.spearman
        best = score is not None and (before is None or score > before)
        self.emit(replace(event, best=best))
        if before is not None and (score is None or score < before - COLLAPSE):
            self._warn_of_collapse(score, before)
        if best:
            self.position.best, self.position.best_step = score, self.position.step
        self.position.evaluations_without_best = 0 if best else self.position.evaluations_without_best + 1
        return best

    def _warn_of_collapse(self, score: float | None, best: float) -> None:
        now = "undefined" if score is None else f"{100 * score:.2f}"
        text = (
            f"the dev score fell to {now} from {100 * best:.2f} at step {self.position.best_step}: it may be collapsing"
        )
        self.emit(Note(step=self.position.step, text=text))

    def _out_of_patience(self) -> bool:
        patience = self.config.dev.patience
        return patience > 0 and self.position.evaluations_without_best >= patience

    def _save(self, *, best: bool) -> None:
        if self.stepper.world.is_main:
            extras = self.stepper.extras
            name = checkpoint.save(self.run, self.encoder, extras, self.optimizer, self.position, best=best)
            self.emit(Saved(step=self.position.step, checkpoint=name, best=best))
        self.stepper.world.wait()
