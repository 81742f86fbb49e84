"""`contrast train`: preview a run, train it here or in the background, resume it."""

import contextlib
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import dropwhile, islice
from operator import attrgetter
from pathlib import Path
from shutil import disk_usage
from socket import gethostname
from statistics import median
from typing import Any

from contrastcli.boundary import narrate, narrate_all, print_path
from contrastcli.commands.track import check_installed
from contrastcli.commands.watch import report
from contrastcli.data.batching import Corpus
from contrastcli.data.downloads import Absent, Unreachable
from contrastcli.data.examples import preview as first_rows
from contrastcli.data.tokens import Tokenizer
from contrastcli.errors import ContrastError, DataError, UsageError
from contrastcli.files import writing_to
from contrastcli.model.adapters import base_folder, check_trained
from contrastcli.model.backbone import longest_of, read_config
from contrastcli.model.contract import Contract, adapted, read_contract
from contrastcli.model.devices import choose_device
from contrastcli.model.folder import check_pooling, load_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.pooling import width_after
from contrastcli.model.weights import count_parameters
from contrastcli.runs.directory import Run, create, discard_untouched, list_runs
from contrastcli.runs.event import Event
from contrastcli.runs.events import Saved, Verdict
from contrastcli.runs.measured import Evaluated, Step
from contrastcli.runs.process import handle_signals, interruptible, interruption, launch
from contrastcli.runs.results import Lengths, Preview, sourced
from contrastcli.runs.status import Environment, Status, digest
from contrastcli.settings import sections
from contrastcli.settings.config import Config
from contrastcli.settings.memory import estimate, sizes_of
from contrastcli.show import console
from contrastcli.show.format import size
from contrastcli.training.checkpoint import disk_bytes, read_position, to_resume
from contrastcli.training.distributed import world
from contrastcli.training.environment import check_rows, check_settings, check_teachers, not_as_begun
from contrastcli.training.inputs import Prompted, measure_lengths
from contrastcli.training.plan import Plan, make_plan
from contrastcli.training.process import reporting, supervise
from contrastcli.training.setup import load_untrained

_MOST_RUNS_COMPARED, _STEPS_COMPARED = 100, 50


def preview(config: Config, run: Run) -> Preview:
    """Read the data and plan a run, which may be there already, to be resumed. Raises ContrastError."""
    plan = _plan(config, run)
    resumed, done = _resumed(run, plan) if run.exists() else ([], 0)
    missing = tuple(filter(None, (resolve(model).absence() for model in plan.models)))
    folder = resolve(config.model.backbone).local_folder()
    contract, changes = adapted(read_contract(folder), config.model) if folder else (None, [])
    backbone = base_folder(contract.backbone) if contract else None
    shape = read_config(backbone) if contract and backbone and not contract.is_static else {}
    _check(config, contract, backbone, shape)
    disk, shortage = _disk(plan, run, backbone) if backbone else (None, [])
    lengths = None
    if folder and contract and shape:
        own = read_contract(folder).prompts
        prompts = contract.prompts_of(config.model.prompts, own, plan.examples.form, plan.corpus.views)
        lengths = read_lengths(plan.corpus, prompts, contract, shape, config.model.max_length)
    longest = min(lengths.longest, lengths.limit) if lengths else 0
    parameters, texts = count_parameters(backbone) if backbone else 0, plan.corpus.texts_per_row
    memory = estimate(config, texts, sizes=sizes_of(shape), longest=longest, parameters=parameters)
    rate, like = earlier_rate(config, run.path.parent)
    return Preview(
        settings=sourced(config),
        rows=first_rows(plan.examples),
        notes=(*resumed, *config.notes, *shortage, *plan.examples.notes, *changes),
        missing=missing,
        # Of texts of any length it would be far too much.
        memory=memory.total if memory and (longest or config.model.max_length) else None,
        seconds=round(max(plan.steps - done, 0) * plan.sentences_per_step / rate, 1) if rate else None,
        like=like,
        count=len(plan.examples),
        steps=plan.steps,
        steps_per_epoch=len(plan.order),
        sentences_per_step=plan.sentences_per_step,
        negatives_per_anchor=plan.negatives_per_anchor,
        dev=f"{plan.dev.source}: {plan.dev}" if plan.dev else "",
        general=f"{plan.general.source}: {plan.general}" if plan.general else "",
        dev_pairs=len(plan.dev or ()),
        disk=disk,
        contract=str(contract) if contract else "",
        lengths=lengths,
    )


def _disk(plan: Plan, run: Run, backbone: Path) -> tuple[int | None, list[str]]:
    """The bytes that checkpoints take, but for adapters, which are small, and a note where a new run lacks the room."""
    config = plan.config
    if config.model.lora:
        return None, []
    needed = disk_bytes(backbone, plan.dev is not None, config.objective.encoders, config.train.keep)
    place = next(filter(Path.is_dir, run.path.absolute().parents))
    is_short = (free := disk_usage(place).free) < needed and not run.exists()
    return needed, [f"checkpoints take about {size(needed)}, and {place} has {size(free)} free"] if is_short else []


def _check(config: Config, contract: Contract | None, backbone: Path | None, shape: dict[str, Any]) -> None:
    """Raises UsageError for a device, tracker, layers or sizes that are not there, if that is known without weights."""
    check_installed(config.track.to)
    # To try it takes memory of a GPU, and the automatic one works.
    if config.train.device != "auto":
        choose_device(config.train.device)
    if contract and backbone and shape:
        check_trained(backbone, config.model)
        if sizes := sizes_of(shape):
            config.model.weights(width_after(contract.after, sizes[-1]))


def read_lengths(
    corpus: Corpus, prompts: Mapping[str, str], contract: Contract, shape: dict[str, Any], max_length: int = 0
) -> Lengths:
    """The tokens of a corpus after the prompt of each view, and the most that the backbone reads, or `max_length`.

    Raises DataError.
    """
    tokenizer = Tokenizer(contract.backbone, lowercase=contract.lowercase, suffix=contract.suffix)
    check_pooling(contract, tokenizer)
    most = [max_length, contract.max_length, longest_of(contract.backbone, shape)]
    return measure_lengths(Prompted.of(corpus, prompts).whole, tokenizer, min(filter(None, most)))


def earlier_rate(config: Config, runs_dir: Path) -> tuple[float | None, str]:
    """The usual sentences a second of the newest run of this machine that encodes alike, and its name."""
    model, train = ("model.backbone", "model.max_length"), ("train.batch_size", "train.device", "train.precision")
    alike = attrgetter("spec.name", *model, *train)
    for run in list_runs(runs_dir)[:_MOST_RUNS_COMPARED]:
        with contextlib.suppress(ContrastError, OSError):
            if alike(run.config()) == alike(config):
                # Single steps are slow now and then, such as the first one after an evaluation.
                rates = [step.sentences_per_s for step in islice(run.latest(Step), _STEPS_COMPARED)]
                known, last = [rate for rate in rates if rate], digest(run.events_path)
                if known and last.started and last.started.host == gethostname():
                    return median(known), run.name
    return None, ""


def start(
    config: Config,
    run: Run,
    *,
    shared: bool = False,
    after: Run | None = None,
    json: bool = False,
    detach: bool = False,
    show: Callable[[Run], None] | None = None,
) -> int:
    """Train a new run or resume one; returns the exit code. Raises ContrastError, and KeyboardInterrupt on a signal.

    A `run` that does not exist is made; if `shared`, perhaps by another process first. It trains in this process; with
    `detach` or `show` in its own process, and `show` is called when that has started. It begins when the run `after`
    has ended, and where that is the newest, all that were made before this one.
    """
    is_new = not run.exists()
    is_last = bool(after) and (after == run or (is_new and after in list_runs(run.path.parent)[:1]))
    late = list[int]()
    with reporting(run), interruptible():
        if (plan := _prepare(config, run, json)) is None:
            return 0
        with _written(plan.config, run, is_new, shared) as made:
            if is_last:
                # Others may have been queued while this one was prepared, and none waits for itself.
                older = dropwhile(lambda one: one.name != made.name, list_runs(made.path.parent))
                after = next(islice(older, 1, None), None)
            if not detach and show is None:
                return _train_here(made, plan, json, after)
            behind = ("--after", str(after.path.resolve())) if after else ()
            # A signal comes too late now: the process is there, and the user is told of it.
            with handle_signals(late.append):
                launch(made, ["train", "--resume", str(made.path.resolve()), "--no-ui", *behind])
                if show is None or late:
                    print_path(made.path)
                    doing = f"queued behind {after.name}" if after else "training in the background"
                    narrate(f"{doing}: contrast watch {made.word}")
                    return 0
    show(run)
    print_path(run.path)
    for verdict in islice(run.latest(Verdict), 1):
        narrate(verdict.line())
    return report(run)


def _prepare(config: Config, run: Run, json: bool) -> Plan | None:
    """Check all that training needs; None for a run that has finished. Raises ContrastError."""
    processes = world()
    plan = _plan(config, run)
    status = run.status() if run.exists() else None
    if status and status.state == "finished" and (text := _ended(run, plan, status)):
        check_rows(run.environment_path, plan)
        narrate(text)
        if processes.is_main and not json:
            print_path(run.path)
        return None
    processes.choose_device(config.train.device)
    if processes.is_main:
        # Errors of models come before a run is created.
        if status:
            _check_resumable(run, plan)
            _folders(plan, run)
        else:
            check_loading(plan, run)
    return plan


def _plan(config: Config, run: Run) -> Plan:
    """The plan of a run, which may be there already and have other rows. Raises ContrastError."""
    try:
        return make_plan(config)
    except DataError as error:
        raise (_moved(run, error) if run.exists() else error) from None
    except UsageError as error:
        # Of what a resume may change, fewer rows alone lead to it.
        if error.key == "train.batch_size" and run.exists():
            raise not_as_begun(run.environment_path, config, f"{error.what}, fewer than the run began with") from None
        raise


@contextlib.contextmanager
def _written(config: Config, run: Run, is_new: bool, shared: bool) -> Iterator[Run]:
    """Make a new run, which if `shared` another process may do first, or write the settings of one that is there.

    A new one that no process has begun to train in the body is deleted.
    """
    processes, signals = world(), list[int]()
    with contextlib.ExitStack() as untouched:
        if processes.is_main:
            with handle_signals(signals.append):
                if is_new:
                    create(config, run.path.parent, run.name, shared=shared)
                    untouched.callback(discard_untouched, run)
                else:
                    # A run in progress must not be changed.
                    with run.locked(), writing_to(run.path):
                        run.write_config(config)
        if signals:
            raise interruption(signals[0])
        yield Run(Path(processes.broadcast(str(run.path))), run.is_elsewhere)


def check_loading(plan: Plan, run: Run) -> None:
    """Raises ContrastError where a new run's tracker, its encoder, or another model of its plan cannot be loaded."""
    check_installed(plan.config.track.to)
    _, *others = _folders(plan, run)
    encoder = load_untrained(plan.config.model)
    for auxiliary in plan.auxiliaries:
        auxiliary.check(plan.config.model, encoder)
    for folder in others:
        load_encoder(folder)
    narrate_all(_disk(plan, run, base_folder(encoder.contract.backbone))[1])


def _moved(run: Run, error: DataError) -> DataError:
    """An error in the data of a run to resume, with the command for data that are elsewhere now."""
    moved = ("dev.data", "dev.corpus", "dev.general", "data.false_negatives")
    key = error.key if error.key in moved else "data.train"
    files = Environment.read(run.environment_path).data.get("files", []) if key == "data.train" else []
    path = files[0] if len(files) == 1 and Path(files[0]).exists() else ""
    there = f"contrast train --resume {run.word} {shlex.join(sections.find_setting(key).words(path or 'PATH'))}"
    others = [one for one in error.remedies if isinstance(one, str) and not path]
    return DataError(error.what, [f"name where they are now: {there}", *others], key=error.key)


def _resumed(run: Run, plan: Plan) -> tuple[list[str], int]:
    """What a resume would say of a run, its end or from where it goes on, and that step. Raises ContrastError as it."""
    status = run.status()
    if status.state == "finished" and (text := _ended(run, plan, status)):
        return [text], status.step
    # A killed run has steps after it.
    done = _check_resumable(run, plan)
    return [f"{run.name} goes on from its step {done:,}"], done


def _ended(run: Run, plan: Plan, status: Status) -> str:
    """That a run that has finished has no step left, and what extends it; empty if it has one, or no checkpoint."""
    patience = waited = plan.config.dev.patience
    limits = plan.config.train
    by_steps = 0 < limits.max_steps <= status.step
    # Epochs of groups differ in length.
    epochs = max(status.step // len(plan.order) + 1, limits.epochs + (not by_steps))
    least = f"--epochs {epochs} " * (epochs > limits.epochs) + f"--max-steps {status.step + 1} " * by_steps
    on, longer = f"to go on: contrast train --resume {run.word} --set dev.patience=0", f"to extend it: {least}or more"
    try:
        if (last := to_resume(run)) is None:
            return ""
        waited = read_position(last).evaluations_without_best
    # Of a pruned run this is not known.
    except DataError as error:
        on = longer = error.hint
    if status.step < status.steps and 0 < patience <= waited:
        return f"{run.name} stopped early at step {status.step:,}, by dev.patience; {on}"
    return f"{run.name} has finished its {status.step:,} steps; {longer}" if plan.steps <= status.step else ""


def _folders(plan: Plan, run: Run) -> list[Path]:
    """The folders of a plan's models. Raises DataError, which for a run to resume says to put a model back."""
    folders = []
    for model in plan.models:
        try:
            folders.append(resolve(model, run.path.parent).folder())
        except Absent as error:
            if not run.exists():
                raise
            what = f"there is no folder '{model}', which the run began from"
            link = f"put it back, or link to it: ln -s FOLDER {shlex.quote(model)}"
            raise type(error)(error.what if isinstance(error, Unreachable) else what, link) from None
    return folders


def _check_resumable(run: Run, plan: Plan) -> int:
    """The step of the last checkpoint, 0 without one. Raises ContrastError where the run cannot go on as planned."""
    if (last := to_resume(run)) is None:
        return 0
    check_settings(run.environment_path, plan.config)
    check_rows(run.environment_path, plan)
    check_teachers(run.environment_path, plan)
    done, length = read_position(last).step, attrgetter("epochs", "max_steps")
    if done >= plan.steps and length(plan.config.train) != length(run.config().train):
        more = f"continue it: --max-steps {done + 1} or more"
        as_it_is = f'use what it has learned: contrast query "a dog runs" "a puppy sprints" --model {run.word}'
        raise UsageError(f"run {run.name} has done {done:,} steps already", [more, as_it_is])
    base_folder(last)
    return done


def _train_here(run: Run, plan: Plan, json: bool, after: Run | None) -> int:
    path_printed, unread = json, list[OSError]()
    with console.showing(console.console(json)) as shown:

        def show(event: Event) -> None:
            nonlocal path_printed
            # The path is not printed before these events, since loading may fail.
            if not path_printed and isinstance(event, Step | Evaluated | Saved):
                path_printed = True
                # A progress bar would share its line.
                shown.close()
                # Training continues without a reader, which may have been a full disk.
                try:
                    print_path(run.path)
                except OSError as error:
                    error.filename = f"the path {run.path} on stdout"
                    unread.append(error)
            shown(event)

        done = supervise(run, plan, show, world(), after)
    if world().is_main:
        report(run)
    if unread and not done.code:
        raise unread[0]
    return done.code


def train_briefly(plan: Plan, watch: Callable[[Event], None]) -> None:
    """Train as planned, in a folder that is gone afterwards. Raises KeyboardInterrupt where Ctrl-C ends it."""
    with tempfile.TemporaryDirectory() as place:
        try:
            done = supervise(create(plan.config, Path(place), "trial"), plan, watch, world())
        except ContrastError as end:
            if type(end) is not ContrastError or (error := end.__cause__) is None:
                raise
            # The run's words for it are to resume the run; a chain that comes back to itself has no end.
            end.__cause__ = None
            raise error from None
    # Training takes Ctrl-C for a request to save and stop.
    if done.status == "stopped":
        raise KeyboardInterrupt
