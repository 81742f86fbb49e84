"""The loop: batches → gradient → update, and now and then an event, an evaluation, a checkpoint."""

import shlex
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor

from contrastcli.data.batching import Indices
from contrastcli.errors import DivergedError, RunError, error_text
from contrastcli.files import atomic_write, json_bytes
from contrastcli.model.devices import is_out_of_memory, limit_prepared_products, memory_mb
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Saved
from contrastcli.runs.measured import Step
from contrastcli.settings.config import Config
from contrastcli.settings.metrics import dev_name
from contrastcli.training import angles, checkpoint
from contrastcli.training.batch import Batch
from contrastcli.training.checkpoint import Position
from contrastcli.training.dev import DevSet
from contrastcli.training.inputs import Inputs
from contrastcli.training.optim import allocate_state, gradient_norm, set_rate
from contrastcli.training.plan import Plan
from contrastcli.training.session import Session, StopRequested
from contrastcli.training.step import Outcome, Stepper

SMALLEST_BUDGET = 64
"""Tokens; a step that needs more memory than these take fails."""

MOST_UNLOGGED_SECONDS = 10.0
"""Steps that take longer are logged in addition to each `train.log_every`th."""


@dataclass
class Trainer:
    """A run in memory."""

    run: Run
    plan: Plan
    stepper: Stepper
    optimizer: torch.optim.Optimizer
    position: Position
    inputs: Inputs
    dev: DevSet | None
    session: Session
    _bad_step: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.long))

    @property
    def encoder(self) -> SentenceEncoder:
        return self.stepper.encoder

    @property
    def config(self) -> Config:
        return self.plan.config

    def run_steps(self) -> str:
        """Train to the end, or until asked to stop; returns "finished" or "stopped". Raises DivergedError."""
        limit_prepared_products(512)
        # Saving waits for the end of the block: the traceback keeps the tensors of a dropped step alive.
        with suppress(StopRequested):
            if self.position.to_evaluate:  # new, or stopped in an evaluation
                is_best = self._evaluate()
                if self.position.step:
                    self._save(best=is_best)
            self.encoder.train()
            clock = Clock(self.encoder.device)
            self.stepper.mark = clock.mark
            for step, epoch, rows in self.plan.batches(self.position.step):
                if self._is_out_of_patience():
                    count = self.config.dev.patience
                    best = "a best" + " that keeps dev.keep_general" * (self.config.dev.keep_general > 0)
                    self.session.note(step - 1, f"stopped early: {count} evaluation{'s' * (count > 1)} without {best}")
                    break
                self._run_step(step, epoch, rows, clock)
            return "finished"
        self._save(best=False)
        return "stopped"

    def _run_step(self, step: int, epoch: float, rows: Indices, clock: "Clock") -> None:
        """Take a step, then log, evaluate and save where it is time. Raises StopRequested."""
        with clock.paused("mining"):
            for auxiliary in self.stepper.auxiliaries:
                auxiliary.before_step(step, self._settle)
        lr = set_rate(self.optimizer, self.config.train, step, self.plan.steps)
        batch = self.make_batch(step, rows)
        self.stepper.mark("batch")
        outcome, norm = self.update(batch)
        for auxiliary in self.stepper.auxiliaries:
            auxiliary.after_step(batch, outcome.views)
        last = step == self.plan.steps
        self.position.step = step
        self.position.to_evaluate = last or step % self.config.dev.every == 0
        clock.tick(int((batch.texts[: batch.count] >= 0).sum()) * len(self.stepper.encoders))
        if writer := self.session.writer:
            writer.step, writer.seconds_left = step, clock.seconds_left(self.plan.steps - step)
        by_number = last or step == 1 or step % self.config.train.log_every == 0
        if by_number or self.session.world.any(clock.unlogged > MOST_UNLOGGED_SECONDS):
            self._log(batch, outcome, norm, lr, epoch, clock)
        self.stepper.mark("logging")
        if self.position.to_evaluate or self._save_is_due():
            with clock.paused("saving"):
                self._evaluate_and_save(last)
        if not last and self.session.world.any(self.session.should_stop()):
            raise StopRequested

    def make_batch(self, step: int, rows: Indices) -> Batch:
        """A batch of some rows, with the views that auxiliaries add."""
        batch = Batch.of(self.plan.corpus, self.inputs, step, rows, self.config.data.mask_duplicates)
        for auxiliary in self.stepper.auxiliaries:
            batch = auxiliary.extend(batch)
        return batch

    def update(self, batch: Batch) -> tuple[Outcome, Tensor]:
        """One optimiser update, with a smaller token budget where memory runs out."""
        self.optimizer.zero_grad()
        # A loss may update them.
        buffers = [(buffer, buffer.clone()) for buffer in self.stepper.heads.buffers()]
        try:
            outcome = self.stepper.backward(batch, before_chunk=self.session.check_stop)
            with self.session.world.fail_together():
                allocate_state(self.optimizer)
            # A fused step needs no memory, so that it is not taken by halves.
            norm = self._take_step(outcome, batch.step)
        except (StopRequested, RuntimeError) as error:
            for buffer, before in buffers:
                buffer.copy_(before)
            if isinstance(error, StopRequested) or not is_out_of_memory(error):
                raise
        else:
            return outcome, norm
        # Outside the handler, since its traceback keeps the failed step's tensors alive.
        self._halve_budget(batch.step)
        return self.update(batch)

    def _take_step(self, outcome: Outcome, step: int) -> Tensor:
        norm = gradient_norm([p for one in self.optimizer.param_groups for p in one["params"]], self.config.train.clip)
        # Remembered here without waiting for the device.
        bad = ~(outcome.loss.isfinite() & norm.isfinite())
        seen = self._bad_step.to(bad.device)
        self._bad_step = torch.where((seen == 0) & bad, step, seen)
        self.optimizer.step()
        self.stepper.mark("optimiser")
        return norm

    def _halve_budget(self, step: int) -> None:
        """Raises RunError at the smallest budget."""
        budget = self.stepper.token_budget // 2
        if budget < SMALLEST_BUDGET:
            raise RunError(f"memory ran out with {2 * budget} tokens at once", "use a smaller batch or backbone")
        self.position.token_budget = budget
        self.stepper.shrink(budget)
        self.session.note(step, f"memory ran out: the step starts again with at most {budget} tokens at once")

    def _settle(self) -> None:
        """Wait for the device; stop a run that diverged, and write down the batch that it diverged on."""
        if not (step := int(self._bad_step)):
            for auxiliary in self.stepper.auxiliaries:
                auxiliary.settle()
            return
        _, _, rows = next(self.plan.batches(step - 1))
        path = self.run.path / "diverged.json"
        batch = f"its batch is in {path}"
        try:
            if self.session.world.is_main:
                atomic_write(path, json_bytes({"step": step, "rows": rows.tolist(), **self.plan.corpus.rows(rows)}))
        except OSError as error:
            batch = f"its batch could not be written: {error_text(error)}"
        kept = "; the last good checkpoint is kept" if self.run.checkpoints() else "; nothing had been saved yet"
        words = ["contrast", "train", "--config", str(self.run.config_path), "--lr", f"{self.config.train.lr / 10:g}"]
        what = f"the loss or its gradient is not a finite number at step {step}; {batch}"
        raise DivergedError(what, f"start again with a lower rate: {shlex.join(words)}{kept}")

    def _log(self, batch: Batch, outcome: Outcome, norm: Tensor, lr: float, epoch: float, clock: "Clock") -> None:
        self._settle()
        event = Step(
            step=batch.step,
            loss=float(outcome.loss),
            parts={name: float(part) for name, part in outcome.parts.items()},
            lr=lr,
            grad_norm=float(norm),
            epoch=round(epoch, 4),
            sentences_per_s=clock.rate(),
            seconds_left=clock.seconds_left(self.plan.steps - batch.step),
            memory_mb=round(memory_mb(self.encoder.device), 1),
            takes=clock.takes(),
        )
        self.session.emit(event)
        self.session.emit(angles.of_batch(self.plan, batch, outcome.views, self.encoder.contract.dims))

    def _evaluate_and_save(self, last: bool) -> None:
        """Evaluate if it is time; save if it is time, at a new best and at the end."""
        self._settle()
        best = self.position.to_evaluate and self._evaluate()
        self.stepper.mark("evaluation")
        if best or last or self._save_is_due() or self._is_out_of_patience():
            self._save(best=best)

    def _evaluate(self) -> bool:
        """Measure the dev set, if there is one; whether the score is the best of all since the first update."""
        position = self.position
        if self.dev is not None:
            advance = self.session.progress(position.step, "encoding the dev set", len(self.dev))
            event = replace(self.dev.evaluate(self.encoder, position.step, advance), data=dev_name(self.config.flat()))
        for auxiliary in self.stepper.auxiliaries:
            auxiliary.after_evaluation(position.step)
        position.to_evaluate = False
        if self.dev is None:
            return False
        kept, better = self.dev.keeps_general(self.config.dev.keep_general), position.is_better(event.score)
        # Other processes, which may have rounded in another way, must not stop or save when the main one does not.
        best = self.session.world.broadcast(kept and better)
        self.session.emit(replace(event, best=best, forgetful=better and not kept))
        position.evaluations_without_best += position.step > 0
        if best:
            self.dev.keep_best()
            position.best, position.best_step, position.evaluations_without_best = event.score, position.step, 0
        return best

    def _is_out_of_patience(self) -> bool:
        return 0 < self.config.dev.patience <= self.position.evaluations_without_best

    def _save_is_due(self) -> bool:
        return self.position.step % (self.config.train.save_every or self.config.dev.every) == 0

    def _save(self, *, best: bool) -> None:
        self._settle()
        self.session.check_place()
        # A GPU that has lost another one continues with what it has: this fails then, before that is saved.
        self.session.world.sum(torch.zeros((), device=self.encoder.device))
        if self.session.world.is_main:
            state = self.encoder, self.stepper.extras, self.optimizer, self.position, self.dev
            name = checkpoint.save(self.run, *state, best=best, keep=self.config.train.keep)
            self.session.emit(Saved(step=self.position.step, checkpoint=name, best=best))
        self.session.world.any(False)  # until every process is here


class Clock:
    """Counts the seconds and sentences of steps, and what the seconds go to; its rate leaves out what is `paused`.

    A GPU works behind the calls: its own events time it, which are read once it has passed them, without a wait.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        self._marks: deque[tuple[str, Any]] = deque([("", self._now())])
        self._spent = defaultdict[str, float](float)
        self.unlogged, self._sentences, self._steps = 0.0, 0, 0
        """Seconds and sentences of steps since the last rate, and all steps."""
        self._begin = self._mark = time.monotonic()

    def _now(self) -> Any:
        if self._stream is None:
            return time.monotonic()
        return self._stream.record_event(torch.cuda.Event(enable_timing=True))  # type: ignore[no-untyped-call]

    def mark(self, what: str) -> None:
        """Count the time since the mark before as that of `what`."""
        self._marks.append((what, self._now()))
        while len(self._marks) > 1 and (self._stream is None or self._marks[1][1].query()):
            begin, (passed, end) = self._marks.popleft()[1], self._marks[0]
            self._spent[passed] += end - begin if self._stream is None else begin.elapsed_time(end) / 1000

    def takes(self) -> dict[str, float]:
        """The mean seconds of a step so far, by what they went to."""
        return {what: round(seconds / self._steps, 7) for what, seconds in self._spent.items()}

    @contextmanager
    def paused(self, what: str) -> Iterator[None]:
        """Mining, evaluation and saving: the end of the body, or all of it, is `what`."""
        begin = time.monotonic()
        yield
        self._mark += time.monotonic() - begin
        self.mark(what)

    def tick(self, sentences: int) -> None:
        now = time.monotonic()
        self.unlogged += now - self._mark
        self._mark = now
        self._steps += 1
        self._sentences += sentences

    def rate(self) -> float | None:
        """Sentences a second since the last call."""
        seconds, sentences = self.unlogged, self._sentences
        self.unlogged, self._sentences = 0.0, 0
        return round(sentences / seconds, 1) if seconds > 0 else None

    def seconds_left(self, steps: int) -> float | None:
        """The time that so many more steps take at the mean speed so far, evaluating and saving included."""
        return round(steps * (time.monotonic() - self._begin) / self._steps, 1) if self._steps else None
