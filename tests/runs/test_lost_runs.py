"""A run whose folder is moved or removed while it trains."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from contrastcli.errors import RunError
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Done
from contrastcli.runs.measured import Evaluated, Step
from support.command import LABELLED, Contrast, refused
from support.command import train as train_command
from support.tiny import Tiny, on_step, told, train


def hinted(hint: str) -> list[str]:
    """The words of the command in a hint, after `contrast`."""
    return shlex.split(hint.partition("contrast ")[2])


@pytest.mark.parametrize("log_every", [1, 1000])
def test_a_run_that_is_removed_ends_and_the_hint_starts_it_again(
    tiny: Tiny, contrast: Contrast, log_every: int
) -> None:
    changes = {"train__max_steps": 9, "train__log_every": log_every, "train__save_every": 3, "objective__tau": 0.07}
    run = tiny.run(Path("runs/one"), "simcse", "pairs", **changes)
    before, steps = run.config(), list[int]()

    def remove(event: Event) -> None:
        steps.extend([event.step] if isinstance(event, Step) else [])
        if isinstance(event, Step) or (log_every > 9 and isinstance(event, Evaluated)):
            shutil.rmtree(run.path)

    with pytest.raises(RunError, match="runs/one was removed while it trained") as raised:
        train(run, remove)
    assert steps in ([], [1]) and not run.path.exists()
    assert contrast(*hinted(raised.value.hint)).code == 0
    assert run.config() == before and told(run, Done)[-1].step == 9


def test_a_run_that_is_moved_ends_and_the_hint_continues_it(tiny: Tiny, contrast: Contrast) -> None:
    run = tiny.run(Path("runs/one"), train__max_steps=6, train__save_every=2)
    Path("other place").mkdir()
    moved = Run(Path("other place/two").absolute())
    with pytest.raises(RunError, match=f"was moved to {moved.path} while it trained") as raised:
        train(run, on_step(3, lambda: run.path.rename(moved.path)))
    assert not run.path.exists() and moved.status().state == "failed"
    assert told(moved, Done)[-1].hint == raised.value.hint
    assert contrast(*hinted(raised.value.hint), "--no-ui").code == 0
    assert moved.status().state == "finished"


def test_a_run_that_takes_the_place_of_a_removed_one_is_left_alone(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, train__save_every=1)

    def replace() -> None:
        shutil.rmtree(run.path)
        tiny.run(place)
        run.alive_path.write_text('{"host": "another", "pid": 7, "process_start": 1.0}')

    with pytest.raises(RunError, match="was replaced"):
        train(run, on_step(3, replace))
    assert sorted(os.listdir(run.path)) == ["alive", "config.toml"]


def test_a_folder_that_is_no_run_says_how_to_free_its_name(contrast: Contrast) -> None:
    Path("runs/one/checkpoints").mkdir(parents=True)
    remedy = "if nothing in it is needed, remove it: rm -r runs/one"
    for words in ((), ("--dry-run",)):
        started = contrast(*train_command(*LABELLED, "--name", "one", *words))
        refused(started, 1, "runs/one exists and is no run", f"hint: choose another --name, or {remedy}")
    refused(contrast("runs", "rm", "one", "--yes"), 3, "runs/one is no run: it has no config.toml", "name a run")


def test_an_empty_folder_is_no_run(contrast: Contrast) -> None:
    """It is left where the disk fails at the end of a removal: the same command again has nothing to do."""
    Path("runs/one").mkdir(parents=True)
    refused(contrast("runs", "rm", "one", "--yes"), 3, "there is no run in runs")
