"""`contrast eval` and the pictures of `compare`, as far as they are more than one call: what is checked before long
work, and what becomes of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contrastcli.errors import DataError, InterruptedEarly
from contrastcli.files import make_folder
from contrastcli.model.locate import resolve
from contrastcli.settings.sections import Pooling
from contrastcli.show import console

if TYPE_CHECKING:
    from contrastcli.evaluation.suites import Scores
    from contrastcli.show.pictures import Picture

GEOMETRY = "geometry"
"""The suite that has pictures."""


@dataclass(frozen=True)
class Measuring:
    """What an evaluation is asked for; the names of suites and tasks are yet to be checked."""

    suites: str
    tasks: str | None
    data_dir: Path | None
    pooling: Pooling | None
    folder: Path | None
    fresh: bool


def measure(asked: Measuring, models: Sequence[str], directory: Path) -> tuple[list[Scores], list[Picture]]:
    """The scores of each model, by default the newest run's, and pictures of them.

    Raises UsageError, DataError and RunError, before long work where that can be; InterruptedEarly for Ctrl-C, which
    loses none of the tasks that are done.
    """
    from contrastcli.commands import gallery
    from contrastcli.evaluation import suites
    from contrastcli.evaluation.result import Options

    wanted = suites.check_suites(asked.suites)
    tasks = suites.check_tasks(asked.tasks, wanted) if asked.tasks is not None else ()
    names = list(dict.fromkeys(resolve(model, directory).name for model in models or (None,)))
    check_folder(asked.folder, pictures=GEOMETRY in wanted)
    try:
        with console.progress() as advance:
            how = Options(asked.data_dir, tasks, asked.folder, asked.fresh, advance)
            scores = gallery.evaluate_each(names, wanted, how, asked.pooling)
            return scores, gallery.of_models(scores, how, asked.pooling) if GEOMETRY in wanted else []
    except KeyboardInterrupt:
        raise InterruptedEarly("interrupted", "what was measured is kept: the same command goes on there") from None


def check_whole(scores: Sequence[Scores]) -> None:
    """Raises DataError where the data of a task were missing or malformed."""
    gaps = [gap for one in scores for result in one.results for gap in result.missing]
    if gaps:
        raise DataError(f"not measured: {', '.join(gap.task for gap in gaps)}: {gaps[0].what}", gaps[0].hint)


def check_folder(folder: Path | None, pictures: bool) -> None:
    """Raises UsageError and RunError, before long work, where what comes of it could not be written."""
    if folder is None:
        return
    if pictures:
        from contrastcli.show import plots as draw

        draw.require()
    make_folder(folder)


def save(drawn: Sequence[Picture], folder: Path | None) -> None:
    """Write pictures where there is a folder for them, and say so on stderr."""
    from contrastcli.commands import gallery

    for path in gallery.save(drawn, folder) if folder else ():
        print(f"wrote {path}", file=sys.stderr)
