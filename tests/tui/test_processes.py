"""What the app reads from a child process: its progress, and an error whose options it shows as fields."""

import asyncio
import shlex
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.json import encode

from contrastcli.errors import ErrorRecord, Use
from contrastcli.runs.events import Progress
from contrastcli.tui import processes, widgets
from contrastcli.tui.processes import Command, Finished

NO_DATA = ErrorRecord("no data", ["get some", Use("--dev", "none")])
BAD_FILE = ErrorRecord("τ is 0", ["raise it"], source="runs/2026-11-23-simcse/config.toml")
BAD_VALUE = ErrorRecord("it is 0", ["raise it"], source="--batch-size")


async def contrast(runs_dir: Path, *words: str) -> tuple[Finished, list[str]]:
    """What the app gets of a command."""
    told: list[str] = []
    return await processes.run_command(runs_dir, *words, on_progress=told.append), told


async def test_an_error_of_what_setup_starts_names_fields_and_not_options(tmp_path: Path) -> None:
    done, _ = await contrast(tmp_path, "train", "--preset", "starter", "--batch-size", "9999", "--dry-run")
    of = "720 of 2,160 rows labelled neutral were dropped"
    what = f"train.batch_size is 9999, but there are 1440 rows to train on; {of}"
    assert (done.stdout, done.error) == ("", f"{what}\nhint: use batch size 1440 or less, or more data")


async def test_progress_is_told_and_is_no_error(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("a dog runs\na cat sleeps\n", encoding="utf-8")
    done, told = await contrast(tmp_path, "query", "a dog", "--corpus", str(corpus), "--model", "starter", "--json")
    assert done.error == "" and "neighbours" in done.stdout
    assert told and all(text.startswith("encoding ") for text in told)


@pytest.mark.parametrize(
    ("printed", "error"),
    [
        (b"Segmentation fault\n", "Segmentation fault"),
        (b"loading\n" + encode(NO_DATA) + b"\n", "no data\nhint: get some, or dev none"),
        (encode(NO_DATA) + b"\nUserWarning: 1 leaked\n", "no data\nhint: get some, or dev none"),
        (encode(BAD_FILE) + b"\n", "τ is 0 (runs/2026-11-23-simcse/config.toml)\nhint: raise it"),
        (encode(BAD_VALUE) + b"\n", "it is 0 (batch size)\nhint: raise it"),
        (b"frame\n" * 99 + b"aborted\n", "frame\n" * 5 + "aborted"),
        (b"", "exited with code 3 and printed nothing"),
    ],
)
async def test_a_process_that_dies_is_quoted_in_the_words_of_the_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: bytes, error: str
) -> None:
    dies = f"import sys; sys.stderr.buffer.write({printed!r}); sys.exit(3)"
    monkeypatch.setattr(processes, "CONTRAST", (sys.executable, "-c", dies))
    expected = (one for one in (NO_DATA, BAD_FILE, BAD_VALUE) if one.what in error)
    assert await processes.run_command(tmp_path, "train") == Finished("", error, next(expected, processes.NO_ERROR))


async def ended(*commands: Command) -> None:
    while any(command.ended is None for command in commands):
        await asyncio.sleep(0)


async def test_every_command_is_in_the_log_to_type_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line runs in a shell here; a webhook's secret is not in it; the exit code, or a stop, is the process's."""
    exits = "import sys; sys.exit({'it\\'s': 3, 'last': 75}.get(sys.argv[-1], 0))"
    monkeypatch.setattr(processes, "CONTRAST", (sys.executable, "-c", exits))
    monkeypatch.setenv("CONTRAST_RUNS", str(tmp_path / "runs"))
    secret = "https://hooks.example.org/T0/B1"
    for directory, words in (
        (tmp_path / "runs", ("train", "--set", f"alerts.webhook={secret}", "--name", "two words")),
        (tmp_path / "other runs", ("eval", "it's")),
        (tmp_path / "runs", ("train", "--resume", "last")),
    ):
        await processes.run_command(directory, *words)
    first, second, stopped = list(processes.COMMANDS)[-3:]
    await ended(first, second, stopped)
    shown = "alerts.webhook=https://hooks.example.org/…"
    assert shlex.split(first.line) == ["contrast", "train", "--set", shown, "--name", "two words"]
    assert shlex.split(second.line) == ["contrast", "--runs-dir", str(tmp_path / "other runs"), "eval", "it's"]
    assert " exit 0 " in first.about and " exit 3 " in second.about and " stopped " in stopped.about


def test_the_rest_of_a_work_is_guessed_from_what_was_seen_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bars, now = widgets.Bars(), [0.0]
    monkeypatch.setattr(widgets, "time", SimpleNamespace(monotonic=lambda: now[0]))
    bars.update(Progress(step=0, what="encoding", done=900, total=1000))
    now[0] = 3.0
    assert "910 of 1,000  27s left" in bars.update(Progress(step=0, what="encoding", done=910, total=1000))


async def test_a_process_that_stays_is_marked_as_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CONTRAST", (sys.executable, "-c", "input()"))
    process = await processes.start_process(tmp_path, "query", "-", stdin=PIPE)
    [*_, command] = processes.COMMANDS
    assert command.about.endswith("● running") and command.line.endswith(" query -")
    await processes.end_process(process)
    await ended(command)
    assert " stopped " in command.about


async def test_a_line_of_any_length_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CONTRAST", (sys.executable, "-c", "print('a' * (1 << 25))"))
    process = await processes.start_process(tmp_path, "query", "-")
    assert process.stdout
    assert len(await process.stdout.readline()) > 1 << 25
    await processes.end_process(process)
