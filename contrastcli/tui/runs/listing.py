"""The runs of a directory as the table of Runs shows them: read in a thread, and only if they have changed."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from contrastcli.boundary import printable
from contrastcli.errors import ContrastError, error_text
from contrastcli.runs.directory import Run, list_runs
from contrastcli.runs.methods import Member, dev_score
from contrastcli.settings.setting import Value
from contrastcli.tui.run_screen import RunView

_REST_SECONDS = 0.002


@dataclass(frozen=True)
class Entry(RunView):
    """A run as it was when it was read; `problem` says why it could not be read in full."""

    settings: Mapping[str, Value] = field(default_factory=dict)
    member: Member | None = None
    size: int = 0
    note: str = ""
    problem: str = ""
    stamp: object = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def state(self) -> str:
        return self.status.state if self.status and not self.problem else "broken"

    @property
    def remark(self) -> str:
        """What the line below the table says of it."""
        if self.problem or self.status is None:
            return self.problem
        end = " · ".join(filter(None, (self.note, self.status.message, self.remedy)))
        return end or f"{self.settings['objective.name']} on {self.settings['model.backbone']}"


def read_entries(directory: Path, before: Sequence[Entry]) -> list[Entry]:
    """Read all runs, the newest first; one that has ended and is as it was before is not read again. Raises OSError."""
    known = {entry.run: entry for entry in before}
    return [_entry(run, known.get(run)) for run in list_runs(directory)]


def _entry(run: Run, before: Entry | None) -> Entry:
    time.sleep(_REST_SECONDS)
    try:
        stamp = _stamp(run)
        if before and before.stamp == stamp and before.status and before.status.ended:
            return replace(before, size=run.size_bytes(), is_saved=run.is_saved, is_pruned=run.is_pruned)
        return replace(_read(run), stamp=stamp)
    except (OSError, ContrastError) as error:
        return Entry(run, problem=error_text(error))


def _stamp(run: Run) -> object:
    """Equal only while a run's files are the same."""
    stats = [
        path.stat() if path.exists() else None
        for path in (run.config_path, run.events_path, run.alive_path, run.note_path)
    ]
    return [(stat.st_mtime_ns, stat.st_size) if stat else None for stat in stats]


def _read(run: Run) -> Entry:
    status = run.status()
    seen = Entry(run, status, run.is_saved, run.is_pruned, size=run.size_bytes(), note=printable(run.note()))
    try:
        config = run.config()
    except ContrastError as error:
        return replace(seen, problem=f"{error.what} · {error.hint}")
    member = Member(run.name, config.shown(), status.state, dev_score(status), run.rows())
    assert member.identity  # looks for files, off the UI
    return replace(seen, settings=member.settings, member=member)
