"""Runs of another machine: what is sent of them, the copy, and a connection that is cut and comes back."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contrastcli.errors import ContrastError, UsageError
from contrastcli.runs import directory as runs
from contrastcli.runs import mirror as mirrors
from contrastcli.runs.directory import Run
from contrastcli.runs.host import Host, place
from contrastcli.runs.mirror import Mirror, take
from contrastcli.runs.stream import Frame, Source, copied
from contrastcli.tui import processes
from support.command import Contrast, refused
from support.fake_ssh import install_ssh
from support.recorded import Kind, append, recorded, stepped

KINDS: tuple[Kind, ...] = ("finished", "running", "stopped", "diverged", "killed", "silent", "empty", "resumed")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    (tmp_path / "there").mkdir()
    return tmp_path / "there"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def copy(source: Source, mirror: Path) -> list[Frame]:
    """Bring a mirror up to date; returns what that took."""
    frames = list(source.changes())
    for frame, data in frames:
        if frame.run:
            take(mirror, frame, data)
    return [frame for frame, _ in frames]


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"the condition does not hold after {seconds} s"
        time.sleep(0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_says_of_a_run_what_its_own_machine_says(there: Path, here: Path, kind: Kind) -> None:
    run = recorded(there, kind)
    run.write_note("#paper")
    copy(Source(there, {}), here)
    same = Run(here / run.name)
    assert same.status() == run.status() or kind == "empty", "an empty one has no time but that of its files"
    assert same.status().state == run.status().state
    assert same.events() == run.events() and same.config() == run.config() and same.checkpoints() == run.checkpoints()
    assert (same.size_bytes(), same.note_path.read_text()) == (run.size_bytes(), "#paper\n")
    assert not same.checkpoints_dir.exists(), "models stay there"


def test_only_what_is_new_is_sent_and_whole_lines(there: Path, here: Path) -> None:
    run = recorded(there, "running")
    source = Source(there, {})
    copy(source, here)
    assert not [frame for frame in copy(source, here) if frame.run], "nothing is new"
    size = run.events_path.stat().st_size
    append(run, stepped(360))
    with open(run.events_path, "ab") as file:
        file.write(b'{"event": "st')
    assert [(frame.file, frame.at) for frame in copy(source, here)] == [("events.jsonl", size), ("state.json", None)]
    again = Source(there, copied(here))  # another connection
    assert "events.jsonl" not in [frame.file for frame in copy(again, here)]
    run.stop_path.touch()
    assert "stop.request" in [frame.file for frame in copy(again, here)]
    run.stop_path.unlink()
    copy(Source(there, copied(here)), here)
    assert not Run(here / run.name).stop_path.exists(), "gone while nobody was connected"
    assert Run(here / run.name).events() == run.events()


def test_another_run_of_the_same_name_replaces_the_copy(there: Path, here: Path) -> None:
    recorded(there, "finished", "one")
    copy(Source(there, {}), here)
    shutil.rmtree(there / "one")
    run = recorded(there, "killed", "one")
    run.events_path.write_bytes(run.events_path.read_bytes().replace(b'"host"', b'"guest"', 1))
    copy(Source(there, copied(here)), here)
    assert (here / "one" / "events.jsonl").read_bytes() == run.events_path.read_bytes()


@pytest.mark.parametrize("path", ["../bad/config.toml", "../config.toml", "/tmp/config.toml", "one/.ssh"])
def test_a_frame_cannot_lead_out_of_the_copy(here: Path, path: str) -> None:
    run, _, file = path.rpartition("/")
    with pytest.raises(ValueError, match="no file of a run"):
        take(here, Frame(run, file, 1), b"x")
    assert not list(here.iterdir())


@pytest.mark.parametrize("word", ["-oProxyCommand=x", "", ":runs", "a b", "a;b", "u@-x", "$(x)"])
def test_what_names_no_machine_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match="names no machine"):
        Host.parse(word)


def test_a_folder_is_quoted() -> None:
    host = Host.parse("u@box.example:it's; rm -rf $HOME")
    assert host.address == "u@box.example"
    assert host.shell(["runs"]) == """cd 'it'"'"'s; rm -rf $HOME' && contrast runs"""
    assert Host.parse("box:~/a").folder == "a" and Host.parse("box:~").folder == ""


def test_a_connection_that_is_cut_comes_back(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_RUNS", str(there))
    monkeypatch.setattr(mirrors, "FIRST_WAIT", 0.05)
    cut = install_ssh(there.parent, monkeypatch)
    run = recorded(there, "running")
    with Mirror(Host.parse("box")) as mirror:
        assert mirror.wait_for("last") == run.name
        same = Run(mirror.directory / run.name)
        assert same.events() == run.events() and place(same.path) == str(run.path.resolve())
        cut.touch()
        mirror._process.kill()
        until(lambda: "no route to host" in Host.of(mirror.directory).problem)  # type: ignore[union-attr]
        append(run, stepped(360))
        gone = recorded(there, "stopped", "new")
        cut.unlink()
        until(lambda: Host.of(mirror.directory).problem == "")  # type: ignore[union-attr]
        until(lambda: same.events() == run.events() and len(runs.list_runs(mirror.directory)) == 2)
        runs.remove(gone)
        until(lambda: len(runs.list_runs(mirror.directory)) == 1)


def test_watch_shows_a_run_of_another_machine(contrast: Contrast, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_RUNS", "nowhere")
    install_ssh(there, monkeypatch)
    monkeypatch.setenv("CONTRAST_REMOTE", f"env CONTRAST_RUNS=runs {os.environ['CONTRAST_REMOTE']}")
    run = recorded(there / "runs", "diverged")
    answer = contrast("watch", "--json", "--host", "box")
    assert (answer.code, answer.out) == (4, run.events_path.read_text())


@pytest.mark.parametrize(
    ("command", "what", "hint"),
    [
        ("no-such-command", "box has no command no-such-command", "CONTRAST_REMOTE"),
        ("echo ssh: permission denied >&2; exit 255;", "ssh box: ssh: permission denied", "by a key"),
        ("echo contrast: error: bad >&2; echo hint: good >&2; exit 3;", "box: bad", "good"),
        ("echo \"contrast: error: no command 'serve'\" >&2; echo hint >&2; exit 2;", "has an older contrast", "update"),
        ("echo welcome #", "box: the connection was cut", "try there: "),
    ],
)
def test_a_host_that_cannot_be_used_says_why(
    contrast: Contrast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, what: str, hint: str
) -> None:
    install_ssh(tmp_path, monkeypatch, command)
    monkeypatch.setattr(Host, "shell", lambda host, words, *more, **form: f"{command} {' '.join(words)}")
    refused(contrast("watch", "--host", "box"), 1, what, hint)


def test_a_command_there_ends_with_its_process_here(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_ssh(tmp_path, monkeypatch)
    (tmp_path / "contrast").write_text(
        'echo "$@" > words; sleep 60 & trap "touch ended; kill $!" TERM; touch on; wait\n'
    )
    Host("box", command="sh contrast", directory="/their/runs").save(here)

    async def cancel() -> None:
        task = asyncio.create_task(processes.run_command(here, "train", "--resume", str(here.resolve() / "one")))
        while not (tmp_path / "on").exists():
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    until((tmp_path / "ended").exists)
    assert (tmp_path / "words").read_text() == "--runs-dir /their/runs train --resume /their/runs/one\n"


def test_a_command_there_answers_as_one_here(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_ssh(tmp_path, monkeypatch, "sh contrast")
    (tmp_path / "contrast").write_text('echo "$CONTRAST_PROGRESS"; echo "contrast: error: no" >&2; exit 3\n')
    Host.parse("box").save(here)
    done = asyncio.run(processes.run_command(here, "eval"))
    assert (done.code, done.stdout, done.error) == (3, "json\n", "no")


def test_without_ssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ContrastError, match="no command ssh here"):
        Mirror(Host.parse("box"))
