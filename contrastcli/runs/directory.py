"""The run directory: create, find, list, delete and prune runs.

runs/                               --runs-dir, else CONTRAST_RUNS, else ./runs
  2026-11-20-1432-simace-bert-base-7f3a/
    config.toml        the resolved settings: `train --config` on it alone repeats the run
    environment.json   versions, device, precision, data fingerprints, host
    events.jsonl       append only, one event a line
    train.log          stdout and stderr of a training process that has no terminal, and of a tracker's
    checkpoints/000120/
    base/              the model that the adapters of the checkpoints are added to, where another run trained it
    checkpoints.json   {"last": "000120", "best": "000100"}
    alive              the process that trains; touched every second
    stop.request       asks the training process to stop
    lock               held by the process that trains
    scores.json        what evaluation measured; its lock: .scores.json.lock
    note.txt           what the user wrote on it
    false-negatives.jsonl  pairs of texts that training is to leave out of the negatives
"""

import contextlib
import errno
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from contrastcli.errors import ContrastError, DataError, InUse, RunError, UsageError, nearest
from contrastcli.files import atomic_write, draft_of, fsync_dir, locked, read_json, writing_to
from contrastcli.runs import event_file
from contrastcli.runs.event import Count, Event
from contrastcli.runs.event_file import read_from_end
from contrastcli.runs.events import Started, decode
from contrastcli.runs.scores import read_scores
from contrastcli.runs.status import IN_PROGRESS, Digest, Environment, Status, observe
from contrastcli.settings import config as configs
from contrastcli.settings import sections
from contrastcli.settings.config import Config

E = TypeVar("E", bound=Event)


class _File:
    """A file of a run, by its name in the run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, run: "Run", owner: "type[Run]") -> Path:
        return run.path / self._name


TRAINING = "training"
"""The folder of a checkpoint in which it has what only a resume needs."""

POSITION = f"{TRAINING}/position.json"
"""Where a run is, in a checkpoint that training can continue from."""

_MOST_FIRST_BYTES = 1 << 14
"""More than the first line of the events has."""

# A name that is never a path out of the run.
_Checkpoint = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{6,18}\Z")]


class _Position(msgspec.Struct):
    """What is read here of a position."""

    best_step: Count | None = None


@dataclass(frozen=True)
class Run:
    """One run directory; its files are read at each call."""

    path: Path
    is_elsewhere: bool = field(default=False, compare=False)
    """Whether it is not in the runs directory of this command, so that its path alone names it."""

    config_path = _File("config.toml")
    environment_path = _File("environment.json")
    events_path = _File("events.jsonl")
    log_path = _File("train.log")
    checkpoints_dir = _File("checkpoints")
    base_dir = _File("base")
    checkpoints_path = _File("checkpoints.json")
    alive_path = _File("alive")
    stop_path = _File("stop.request")
    lock_path = _File("lock")
    scores_path = _File("scores.json")
    note_path = _File("note.txt")
    false_negatives_path = _File("false-negatives.jsonl")

    @cached_property
    def name(self) -> str:
        return os.path.basename(os.path.abspath(self.path))

    @property
    def title(self) -> str:
        """What tells it from others: its name, or its path where that alone names it."""
        return str(self.path) if self.is_elsewhere else self.name

    @property
    def word(self) -> str:
        """What names it in a command."""
        return shlex.quote(self.title)

    def exists(self) -> bool:
        """Whether the folder holds the settings of a run."""
        # A path's own method raises for a name that is too long.
        return os.path.isfile(self.config_path)

    def config(self) -> Config:
        """The settings, and notes on those of a later version. Raises DataError or UsageError if they are malformed."""
        return configs.resolve([replace(configs.file_layer(self.config_path), to_read=True)])

    def write_config(self, config: Config) -> None:
        """Replace the settings, which others cannot read where there is a secret among them. Raises OSError."""
        private = sections.hold_secret(config.flat())
        atomic_write(self.config_path, config.to_toml().encode(), private=private)

    def events(self) -> list[Event]:
        """Its events, without those that a resume voids."""
        return event_file.read(self.events_path)

    def latest(self, *kinds: type[E]) -> Iterator[E]:
        """Its events of these kinds as they are read, the last first, without those that a resume voids."""
        patterns = [f'"{name}"'.encode() for name in {Started.kind(), *(kind.kind() for kind in kinds)}]
        return (event for event in read_from_end(self.events_path, lambda: patterns) if isinstance(event, kinds))

    def follow(self) -> Iterator[Event | None]:
        """Its events as they are written, until it ends; None whenever there is nothing new."""
        return event_file.follow(self.events_path, lambda: self.status().ended)

    def status(self, events: Digest | None = None) -> Status:
        """Its state and latest numbers, from a digest of its events, which is read if it is not given."""
        events, writer, state = observe(self.events_path, self.alive_path, self.config_path, events)
        return Status.of(self.name, self.word, events, state, self.created(), writer)

    def created(self) -> float:
        """When it was created, in seconds since the epoch, also of a run that was copied or resumed."""
        lines, _ = event_file.read_lines(self.events_path, 0, _MOST_FIRST_BYTES)
        first = decode(lines[0]) if lines else None
        written = self.config_path.stat().st_mtime
        return min(written, first.time) if first and first.time else written

    def checkpoints(self) -> dict[str, str]:
        """Names of folders in `checkpoints/` by "last" and "best"; empty before the first save. Raises DataError.

        Where checkpoints.json does not name the last one, it is the newest that training can continue from.
        """
        names = read_json(self.checkpoints_path, dict[str, _Checkpoint]) or {}
        if "last" in names:
            return names
        complete = [folder for folder in self.full_checkpoints() if (folder / POSITION).is_file()]
        return self.names_of(complete[-1]) | names if complete else names

    def names_of(self, last: Path) -> dict[str, str]:
        """The names that checkpoints.json has when this checkpoint is the last. Raises DataError."""
        position = read_json(last / POSITION, _Position) or _Position()
        best = f"{position.best_step or 0:06d}"
        has_best = bool(position.best_step) and (self.checkpoints_dir / best).is_dir()
        return {"last": last.name} | ({"best": best} if has_best else {})

    def checkpoint(self, which: Literal["best", "last"] | None = None) -> Path:
        """The folder of a checkpoint, by default the best, else the last. Raises DataError if there is none."""
        saved = self.checkpoints()
        name = saved.get(which) if which else saved.get("best") or saved.get("last")
        if name is None:
            remedies = [f"while it trains: contrast stop {self.word}", f"else: contrast train --resume {self.word}"]
            raise DataError(f"run {self.name} has no {which or 'saved'} checkpoint", remedies)
        path = self.checkpoints_dir / name
        if not path.is_dir():
            then = "the newest is used" if self.all_checkpoints() else f"contrast train --resume {self.word}"
            hint = f"restore it, or remove {self.checkpoints_path}, which names it: then {then}"
            raise DataError(f"the checkpoint {path} is missing", hint)
        return path

    def all_checkpoints(self) -> list[Path]:
        """Their folders, in the order of their steps."""
        folders = [path for path in self.checkpoints_dir.glob("[0-9]*") if path.name.isdecimal() and path.is_dir()]
        return sorted(folders, key=lambda folder: int(folder.name))

    def full_checkpoints(self) -> list[Path]:
        """Those that training can continue from, in order; all but `last` are there because of train.keep."""
        return [folder for folder in self.all_checkpoints() if (folder / TRAINING).is_dir()]

    @property
    def is_saved(self) -> bool:
        """Whether it seems to have a checkpoint."""
        return self.checkpoints_path.exists() or bool(self.all_checkpoints())

    @property
    def is_pruned(self) -> bool:
        """Whether its checkpoints keep the model only."""
        return bool(self.all_checkpoints()) and not self.full_checkpoints()

    def note(self) -> str:
        """What the user wrote on it; empty if nothing."""
        with contextlib.suppress(OSError):
            return self.note_path.read_text(encoding="utf-8", errors="replace").strip()
        return ""

    def write_note(self, text: str) -> None:
        """Replace the user's note. Raises RunError."""
        with writing_to(self.path):
            atomic_write(self.note_path, f"{text}\n".encode())

    def rows(self) -> dict[str, str]:
        """The fingerprints of all training rows and of the dev set that it read, where they are recorded."""
        data: dict[str, Any] = {}
        with contextlib.suppress(DataError):
            data = Environment.read(self.environment_path).data
        names = {"data.train": "read_fingerprint", "dev.data": "dev_fingerprint"}
        return {key: str(data[name]) for key, name in names.items() if data.get(name)}

    def scores(self) -> dict[str, Any]:
        """The results of evaluation; empty if there are none. Raises DataError."""
        return read_scores(self.scores_path)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from training here. Raises RunError if one does, or if it cannot be written."""
        taken = InUse(f"a process is training in {self.path} already", f"contrast watch {self.word} shows it")
        return locked(self.lock_path, taken)

    def size_bytes(self) -> int:
        total = 0
        # Training may delete a checkpoint meanwhile.
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    total += os.lstat(os.path.join(folder, name)).st_size
        return total


def runs_dir(option: str | None) -> Path:
    """The runs directory: the option, else CONTRAST_RUNS, else ./runs. Raises UsageError for a file."""
    path = Path(os.path.expanduser(option or os.environ.get("CONTRAST_RUNS") or "runs"))
    if path.is_file():
        raise UsageError(f"{path} is a file, and no directory of runs", "name another: contrast --runs-dir DIR")
    return path


def create(config: Config, directory: Path, name: str | None, *, shared: bool = False) -> Run:
    """A new run directory with its settings; if `shared`, also one that another process made with the same settings.

    Raises UsageError for a bad name, RunError if it cannot be written or exists.
    """
    run = Run(directory / run_name(name, config, directory))
    with writing_to(directory, "write elsewhere: contrast --runs-dir DIR"):
        make_runs_dir(directory)
        draft = Run(draft_of(run.path))
        draft.path.mkdir()
        try:
            draft.write_config(config)
            os.rename(draft.path, run.path)
            fsync_dir(directory)
        except OSError:
            if shared and run.exists() and run.config() == config:
                return run
            check_free(run)
            raise
        finally:
            shutil.rmtree(draft.path, ignore_errors=True)
    return run


def check_free(run: Run) -> None:
    """Raises RunError where something has its name, but an empty folder."""
    other = "choose another --name"
    if run.exists():
        live = run.status().state in IN_PROGRESS
        acts = {"watch": "watch", "stop": "stop"} if live else {"continue": "train --resume", "remove": "runs rm"}
        hints = (f"{act} it: contrast {command} {run.word}" for act, command in acts.items())
        raise RunError(f"{run.path} exists{', and is in progress' * live}", [other, *hints])
    with writing_to(run.path):
        if run.path.is_file() or any(run.path.glob("*")):
            free = f"if nothing in it is needed, remove it: {shlex.join(['rm', '-r', str(run.path)])}"
            raise RunError(f"{run.path} exists and is no run", [other, free])


def make_runs_dir(directory: Path) -> None:
    """Make a folder for runs, which git ignores. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    # A folder in use, such as --runs-dir ., keeps its own .gitignore.
    if not any(directory.iterdir()):
        atomic_write(directory / ".gitignore", b"*\n")


def run_name(name: str | None, config: Config, directory: Path, title: str = "") -> str:
    """The name that a user gave a run, else an unused one of the date, the title or objective, and the backbone.

    Raises UsageError for a bad name.
    """
    if name is not None:
        if name in ("last", "starter") or not re.fullmatch(r"\w[\w\u0300-\u036f.,=+@-]*", name):
            taken = "'last' means the newest run, and 'starter' the model that comes with contrast"
            hint = f"use letters, digits and . _ - = + , @ but no blanks, and begin with a letter or digit; {taken}"
            raise UsageError(f"a run cannot be named '{name}'", hint)
        return name
    backbone = re.sub(r"[^a-z0-9.]+", "-", re.split(r"[/\\]", config.model.backbone.rstrip("/\\"))[-1].lower())
    words = [time.strftime("%Y-%m-%d-%H%M"), title or config.spec.name, backbone.strip("-.")]
    while True:
        name = "-".join(word for word in [*words, os.urandom(2).hex()] if word)
        if not (directory / name).exists():
            return name


def list_runs(directory: Path) -> list[Run]:
    """All runs of a directory, the newest first."""
    runs = []
    for run in map(Run, directory.iterdir() if directory.is_dir() else ()):
        # Another process may delete it meanwhile.
        with contextlib.suppress(OSError):
            if run.exists() and not run.path.name.startswith("."):
                runs.append((run.created(), run.name, run))
    return [run for _, _, run in sorted(runs, key=itemgetter(0, 1), reverse=True)]


def find_run(word: str, directory: Path) -> Run:
    """The run that is meant by a path, a name, an unambiguous part of one, or "last". Raises DataError."""
    # No shell does that behind an = or for --host.
    word = os.path.expanduser(word)
    path = directory / word if word == os.path.basename(word) and not word.startswith(".") else Path(word)
    for one in (Path(word), path):
        if word != "last" and Run(one).exists():
            return Run(one, one.parent.resolve() != directory.resolve())
    runs = {run.name: run for run in list_runs(directory)}
    # An empty folder is what is left of a run where the disk failed at the end of its removal.
    if word != "last" and os.path.isdir(path) and os.listdir(path) and not any(word in name for name in runs):
        models = (f"use its model {one}" for one in Run(path).all_checkpoints()[-1:])
        raise DataError(f"{path} is no run: it has no config.toml", [*models, "name a run: contrast runs lists them"])
    return runs[match_name(word, list(runs), directory, "run", "contrast train --preset starter --no-ui")]


def match_name(word: str, names: Sequence[str], directory: Path, kind: str, command: str) -> str:
    """The name that a word means: the whole name, an unambiguous part of it, or "last" for the first of `names`.

    Raises DataError; without any names its hint is the command that makes one of that kind.
    """
    if not names:
        raise DataError(f"there is no {kind} in {directory}", f"make one: {command}")
    if word == "last":
        return names[0]
    matches = [name for name in names if name == word] or [name for name in names if word and word in name]
    if not matches:
        raise DataError(f"there is no {kind} '{word}' in {directory}", nearest(word, names, "contrast runs"))
    if len(matches) > 1:
        some = " ".join([*matches[:20], *["…"] * (len(matches) > 20)])
        raise DataError(f"'{word}' means {len(matches)} {kind}s", f"name what is meant: {some}")
    return matches[0]


def require_ended(run: Run) -> None:
    """Raises RunError for a run in progress."""
    if run.status().state in IN_PROGRESS:
        raise RunError(f"run {run.name} is in progress", f"stop it first: contrast stop {run.word}")


def remove(run: Run) -> None:
    """Delete a run. Raises RunError for one in progress, and for a link to one."""
    require_ended(run)
    if run.path.is_symlink():
        there = shlex.quote(str(run.path.resolve()))
        remedies = [f"remove the link: rm {shlex.quote(str(run.path))}", f"delete the run: contrast runs rm {there}"]
        raise RunError(f"{run.path} is a link to {run.path.resolve()}", remedies)
    # A silent process may still hold the lock.
    with run.locked():
        pass
    # A kill in between leaves a run that has ended and names no checkpoint that is gone, to be deleted again.
    last = (run.events_path, run.config_path)
    with writing_to(run.path):
        # Its files may be the user's where its folder is not. One that is not empty stays, and is refused before.
        try:
            run.path.rmdir()
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        run.checkpoints_path.unlink(missing_ok=True)
        for folder in run.full_checkpoints():
            (folder / POSITION).unlink(missing_ok=True)
        for path in [*(path for path in run.path.iterdir() if path not in last), *last]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        run.path.rmdir()


def discard_untouched(run: Run) -> None:
    """Delete a new run, unless a process has begun to train it, or was launched to."""
    with contextlib.suppress(RunError, OSError), run.locked():
        if not (run.events_path.exists() or run.alive_path.exists()):
            shutil.rmtree(run.path)


def prune(runs: Iterable[Run], *, resumable: bool = True) -> dict[Run, int]:
    """Delete from the checkpoints of runs that have ended what only a resume needs; returns the bytes freed, by run.

    The models stay; without `resumable`, so do runs that neither finished nor diverged. Raises ContrastError for the
    first run that cannot be read or written, after all others.
    """
    freed, errors = dict[Run, int](), list[ContrastError]()
    for run in runs:
        try:
            status = run.status()
            if status.ended and (resumable or status.state in ("finished", "diverged")):
                freed[run] = _prune(run)
        except ContrastError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return freed


def _prune(run: Run) -> int:
    before = run.size_bytes()
    left = run.checkpoints_dir.glob(".*.tmp")
    for folder in filter(Path.is_dir, [*left, *run.checkpoints_dir.glob(f"[!.]*/{TRAINING}")]):
        with writing_to(run.path):
            discard(run, folder)
    return before - run.size_bytes()


def discard(run: Run, folder: Path) -> None:
    """Delete a checkpoint or a part of one. A kill leaves it whole, or under a temporary name. Raises OSError."""
    draft = folder
    # On a full disk even a rename may fail, so what has such a name already is not renamed.
    if not folder.name.startswith("."):
        draft = run.checkpoints_dir / f".{os.urandom(4).hex()}.tmp"
        os.rename(folder, draft)
    shutil.rmtree(draft)
