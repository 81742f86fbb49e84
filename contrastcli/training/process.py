"""The process that trains a run: lock and heartbeat, signals, the first and the last event."""

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import psutil
import torch
from msgspec import to_builtins
from msgspec.structs import replace

from contrastcli.data.downloads import shown_by
from contrastcli.errors import ContrastError, DivergedError, NoRoom, Preempted, RunError, error_text, interrupted
from contrastcli.files import writing_to
from contrastcli.model.contract import adapted, read_contract
from contrastcli.model.devices import choose_precision, is_out_of_memory
from contrastcli.model.locate import resolve
from contrastcli.runs.alerts import WEBHOOK_SECONDS, Rules, Webhook
from contrastcli.runs.directory import TRAINING, Run
from contrastcli.runs.event import Event
from contrastcli.runs.event_file import EventWriter
from contrastcli.runs.events import Alert, Done, Note, Queued, Started
from contrastcli.runs.measured import Evaluated, Step, System
from contrastcli.runs.process import CONTRAST, handle_signals, hold, interruption, start_detached, wait_behind
from contrastcli.runs.scores import add_scores
from contrastcli.runs.status import Writer, digest, read_writer, this_process
from contrastcli.settings import presets
from contrastcli.settings.config import Config
from contrastcli.training.distributed import World
from contrastcli.training.environment import write_environment
from contrastcli.training.equalities import check_adapter
from contrastcli.training.loop import Trainer
from contrastcli.training.plan import Plan
from contrastcli.training.session import Emit, Session
from contrastcli.training.setup import contract_changes, make_trainer
from contrastcli.training.system import Sampler

_MOST_PRUNED = 5

Watch = Callable[[Event], object]
"""Gets each event as written."""


class _Interrupts:
    """Signals: the first one saves and stops; a second Ctrl-C, and any signal before the loop, interrupts.

    Schedulers repeat the others while a checkpoint is being written.
    """

    in_loop = False

    def __init__(self) -> None:
        self.seen = set[int]()
        self.raised: KeyboardInterrupt | None = None

    def __call__(self, number: int) -> None:
        is_second = number in self.seen and number == signal.SIGINT
        self.seen.add(number)
        if not self.in_loop or is_second:
            self.raised = interruption(number)
            raise self.raised


def supervise(run: Run, plan: Plan, watch: Watch, world: World, after: Run | None = None) -> Done:
    """Train a run to its end, from its last checkpoint where there is one, and return the last event.

    It begins when the run `after` has ended. Raises ContrastError, which the last event reports too.
    """
    config, interrupts = plan.config, _Interrupts()
    held: AbstractContextManager[Writer | None] = hold(run) if world.is_main else nullcontext()
    with handle_signals(interrupts), held as writer, _session(run, config, watch, world, interrupts) as session:
        session.writer, device = writer, world.choose_device(config.train.device)
        last = run.checkpoints().get("last")
        resumed_from = int(last) if last else 0 if digest(run.events_path).last else None
        session.step = resumed_from or 0
        if after is not None:
            wait_behind(after, run, session.emit, session.step)
        if writer is not None:
            session.emit(_started(plan, writer, device, resumed_from))
            notes = write_environment(run.environment_path, plan, device, world.size, is_new=last is None)
            for text in (*notes, *config.notes, *plan.examples.notes):
                session.note(session.step, text)
            session.emit = _with_tracker(_with_alerts(session.emit, run, config, device), run, config.track.to)
        trainer = make_trainer(run, plan, device, session)
        interrupts.in_loop = True
        status = trainer.run_steps()
        if status == "finished" and world.is_main and (text := check_adapter(trainer)):
            session.note(trainer.position.step, text)
        if world.is_main and (status == "finished" or trainer.position.best_step is not None):
            _judge(trainer, run, session.emit)
        preempted = status == "stopped" and world.any(bool(interrupts.seen - {signal.SIGINT}))
        done = Done(status=status, step=trainer.position.step, code=Preempted.code if preempted else 0)
        session.emit(done)
        return done


@contextmanager
def reporting(run: Run) -> Iterator[None]:
    """In a process that was launched for a run an error before `supervise`, which nobody sees, is its last event."""
    try:
        yield
    except BaseException as error:
        end = error
        if this_process().same_as(read_writer(run.alive_path)):
            # A process that trains there by now has the lock.
            with suppress(ContrastError, OSError), run.locked():
                record = _Record(run, run.config(), lambda event: None)
                try:
                    with record.ending(_Interrupts()):
                        raise
                except BaseException as recorded:
                    end = recorded
                run.alive_path.unlink()
        raise end from end.__cause__


def _merge(run: Run, config: Config) -> str:
    """The command that mends what a run has forgotten; empty where its model is no other weights of its backbone."""
    backbone, merged = resolve(config.model.backbone), shlex.quote(f"{run.name}-merged")
    if config.model.head == "keep" or contract_changes(read_contract(backbone.folder()), config.model):
        return ""
    return f"contrast merge {shlex.quote(backbone.name)} {run.word} -o {merged}"


def _judge(trainer: Trainer, run: Run, emit: Emit) -> None:
    """Tell what training made of its backbone, which the run's scores keep too."""
    position, backbone = trainer.position, resolve(trainer.config.model.backbone).name
    verdict = trainer.dev and trainer.dev.verdict(position.step, position.best_step, Path(backbone).name)
    if not (trainer.dev and verdict):
        return
    bound = trainer.config.dev.keep_general
    forgets = position.best_step is None and not trainer.dev.keeps_general(bound)
    if forgets:
        text = f"no evaluation with a dev score kept dev.keep_general {bound:g}: the last checkpoint is the model"
        emit(Note(step=position.step, text=text))
    if verdict.general and (forgets or verdict.general.judgement == "worse"):
        verdict = replace(verdict, hint=_merge(run, trainer.config) or "train again with a lower --lr")
    try:
        add_scores(run.scores_path, {"verdict": to_builtins(verdict)})
    except ContrastError as error:
        # Of a run that is saved already.
        emit(Note(step=position.step, text=f"the scores do not hold the verdict: {error.what}"))
    emit(verdict)


def _started(plan: Plan, writer: Writer, device: torch.device, resumed_from: int | None) -> Started:
    config, contract = plan.config, ""
    if not resumed_from:
        contract = str(adapted(read_contract(resolve(config.model.backbone).folder()), config.model)[0])
    return Started(
        step=resumed_from or 0,
        host=writer.host,
        pid=writer.pid,
        process_start=writer.process_start,
        steps=plan.steps,
        steps_per_epoch=len(plan.order),
        batch_size=plan.order.batch_size,
        sentences_per_step=plan.sentences_per_step,
        negatives_per_anchor=plan.negatives_per_anchor,
        objective=config.spec.name,
        backbone=config.model.backbone,
        device=str(device),
        precision=choose_precision(config.train.precision, device),
        contract=contract,
        resumed_from=resumed_from,
    )


def _with_alerts(emit: Emit, run: Run, config: Config, device: torch.device) -> Emit:
    """Samples of the machine and alerts, among the events."""
    earlier = [*run.latest(Alert, Evaluated, System)][::-1]
    sample, rules = Sampler(device, run.path), Rules(config.alerts, earlier, _merge(run, config), run.word)

    def attend(event: Event) -> None:
        emit(event)
        for alert in rules(event):
            emit(alert)
        if isinstance(event, Step) and (system := sample(event.step)):
            attend(system)

    return attend


def _with_tracker(emit: Emit, run: Run, to: str) -> Emit:
    """Have a process log the run to a tracker until it ends; a note says where that process has ended before."""
    if to == "none":
        return emit
    log = ("runs", "log", str(run.path.resolve()), "--to", to, "--follow")
    lost = f"{to} does not follow this run; to log it or see why not: contrast runs log {run.word} --to {to}"
    pid: int | None = None
    with suppress(RunError):
        pid = start_detached([*CONTRAST, *log], run.log_path)

    def follow(event: Event) -> None:
        nonlocal lost
        emit(event)
        if lost and (pid is None or not psutil.pid_exists(pid)):
            emit(Note(step=event.step, text=lost))
            lost = ""

    return follow


@contextmanager
def _session(run: Run, config: Config, watch: Watch, world: World, interrupts: _Interrupts) -> Iterator[Session]:
    """What ties the training in the body to its run; an error of the body becomes the last event."""

    def stop_requested() -> bool:
        return bool(interrupts.seen) or run.stop_path.exists()

    if not world.is_main:
        yield Session(lambda event: None, stop_requested, world=world)
        return
    record = _Record(run, config, watch)
    session = Session(record.emit, stop_requested, record.check_place, world)
    with record.ending(interrupts), shown_by(lambda: nullcontext(session.loading)):
        yield session


class _Record:
    """The events of a run as they are written, shown, and told to its webhook."""

    def __init__(self, run: Run, config: Config, watch: Watch) -> None:
        self._run, self._config, self._watch = run, config, watch
        self._step = run.status().step
        self._webhook = Webhook(config.alerts.webhook, run.name)
        with writing_to(run.events_path):
            self._file = EventWriter(run.events_path)

    def emit(self, event: Event) -> None:
        """Record an event. Raises RunError where the run was moved or removed, or cannot be written."""
        self.check_place()
        self._write(event)

    def check_place(self) -> None:
        """Raises RunError where the run was moved or removed."""
        if lost := self._lost():
            raise lost

    @contextmanager
    def ending(self, interrupts: _Interrupts) -> Iterator[None]:
        """Close the file at the end of the body, with its error as the last event."""
        try:
            yield
        except (Exception, KeyboardInterrupt) as caught:
            # A library may make another error of it.
            error = interrupts.raised or caught
            lost = self._lost()
            end = lost or _explain(self._run, error, in_loop=interrupts.in_loop)
            by_kind = {DivergedError: "diverged", KeyboardInterrupt: "stopped"}
            status = next((status for kind, status in by_kind.items() if isinstance(error, kind)), "failed")
            with suppress(RunError):  # a full disk
                self._write(Done(step=self._step, status=status, code=end.code, message=end.what, hint=end.hint))
            # What is printed is what is recorded.
            if end is not error:
                raise end from error
            raise
        finally:
            self._file.close()

    def _write(self, event: Event) -> None:
        # Nothing is read after the end, so that how the post of it went is noted before.
        is_end = isinstance(event, Done)
        if is_end:
            self._webhook.tell(event)
        for text in self._webhook.failures(WEBHOOK_SECONDS if is_end else 0.0):
            self._write(Note(step=event.step, text=text))
        with writing_to(self._run.events_path):
            written = self._file(event)
        self._step = event.step
        self._watch(written)
        if not is_end:
            self._webhook.tell(event)

    def _lost(self) -> RunError | None:
        """The error of a run that is not where it was, None where it is."""
        if self._file.is_in_place:
            return None
        run = self._run
        if events := self._file.find():
            again = f"contrast train --resume {shlex.quote(str(events.parent))}"
            return RunError(f"{run.path} was moved to {events.parent} while it trained", f"continue it there: {again}")
        if run.exists():
            what = f"{run.events_path} was replaced while {run.name} trained"
            return RunError(what, f"continue it: contrast train --resume {run.word}")
        again = self._config.masked(shlex.join([*presets.words(self._config), "--name", run.name]))
        return RunError(f"{run.path} was removed while it trained", f"start it again: contrast train {again}")


def _explain(run: Run, error: BaseException, *, in_loop: bool) -> ContrastError:
    if isinstance(error, NoRoom):
        # Of others too is kept what only a resume needs.
        kept = {path.parents[2].name for path in run.path.parent.glob(f"*/checkpoints/*/{TRAINING}")} - {run.name}
        prune = [f"contrast runs prune {shlex.join(sorted(kept)[:_MOST_PRUNED])}"] if kept else []
        elsewhere = f"contrast --runs-dir DIR train --config {shlex.quote(str(run.config_path))}"
        return NoRoom(error.what, [*prune, *error.remedies, f"train elsewhere: {elsewhere}"])
    if isinstance(error, ContrastError):
        return error
    if is_out_of_memory(error):
        hint = "close other programs, use a smaller backbone, or no GPU: CUDA_VISIBLE_DEVICES= before the command"
        return RunError(f"memory ran out: {error_text(error)}", hint)
    if not isinstance(error, KeyboardInterrupt):
        what = f"{type(error).__name__}: {error_text(error)}"
        return ContrastError(what, f"contrast --debug train --resume {run.word}")
    command = f"contrast train --resume {run.word}"
    # Without it, a run that still waits would train at once.
    if isinstance(last := next(run.latest(Queued, Started), None), Queued):
        command += f" --after {Run(run.path.parent / last.behind, run.is_elsewhere).word}"
    unsaved = "" if run.checkpoints() else "no step had been saved yet; start again: "
    if in_loop and not unsaved and type(error) is KeyboardInterrupt:
        return ContrastError("interrupted while a step was under way", command)
    return interrupted(error, unsaved + command)
