"""Whatever data, names, settings and messages hold, no command sends a terminal anything but text."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from contrastcli.boundary import CONTROLS
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done, Note, Progress, Saved
from support.command import LABELLED, MODEL, Contrast, train
from support.recorded import append

HOSTILE = "\x1b[31ma\x1b]0;t\x07\x1b]52;c;ZQ==\x07\r\b\x9b2J\u202e\u2066\u200e\u200f\u061c[red]b[|red]\x7f\x85"
"""Colours, the window's title, the clipboard, the cursor, the direction of writing; markup of the app's library."""


@pytest.fixture
def hostile(run: Run) -> Run:
    """A run with such a name, such settings and such events, next to files of that name and content."""
    config, toml = run.config(), json.dumps(HOSTILE).replace("\x7f", "\\u007f")
    run.config_path.write_text(config.to_toml().replace(json.dumps(config.data.train), toml))
    append(run, Note(step=2, text=HOSTILE), Progress(step=2, what=HOSTILE, done=1, total=2))
    append(run, Saved(step=2, checkpoint=HOSTILE, best=True))
    append(run, Done(step=4, status="failed", code=1, message=HOSTILE, hint=HOSTILE))
    run.scores_path.write_text(json.dumps({"model": HOSTILE, "suites": {"sts": {"missing": {HOSTILE: {}}}}}))
    shutil.copytree(run.path, run.path.with_name(HOSTILE))
    rows = [
        {"premise": f"{HOSTILE} {n}", "hypothesis": HOSTILE, "label": "enc"[n % 3], HOSTILE: HOSTILE} for n in range(40)
    ]
    Path(f"{HOSTILE}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path(f"{HOSTILE}.txt").write_text(f"ba en\n{HOSTILE.replace(chr(13), '')}\n")
    Path(f"{HOSTILE}.toml").write_text("[train]\nseed = " + json.dumps(HOSTILE))
    Path(f"{HOSTILE}.parquet").write_text(HOSTILE)
    return run


COMMANDS = (
    ("runs",),
    ("runs", "list", "--json"),
    ("runs", "show", HOSTILE),
    ("runs", "show", HOSTILE, "--json"),
    ("runs", "show", f"no{HOSTILE}"),
    ("runs", "prune", HOSTILE),
    ("runs", "rm", HOSTILE),
    ("runs", "rm", HOSTILE, "--yes"),
    ("compare", HOSTILE, "simple"),
    ("compare", HOSTILE, "simple", "--json"),
    ("compare", HOSTILE, "simple", "--plot", "--out", f"{HOSTILE}.d"),
    ("watch", HOSTILE),
    ("watch", HOSTILE, "--json"),
    ("stop", HOSTILE),
    ("query", HOSTILE, HOSTILE, *MODEL),
    ("query", HOSTILE, HOSTILE, *MODEL, "--json"),
    ("query", HOSTILE, "--corpus", f"{HOSTILE}.txt", *MODEL),
    ("query", HOSTILE, "--corpus", f"{HOSTILE}.txt", *MODEL, "--json"),
    ("query", "a", "b", "--model", HOSTILE),
    ("encode", f"{HOSTILE}.txt", "-o", f"{HOSTILE}.npy", *MODEL),
    ("encode", f"{HOSTILE}.txt", "-o", HOSTILE, *MODEL),
    ("encode", f"{HOSTILE}.parquet", "-o", "vectors.npy", *MODEL),
    ("export", "tiny/backbone", f"{HOSTILE}.d"),
    ("eval", "tiny/backbone", "--data-dir", HOSTILE, "--task", HOSTILE),
    ("eval", "tiny/backbone", "--data-dir", HOSTILE),
    train("--data", f"{HOSTILE}.jsonl", "--dry-run"),
    train("--data", f"{HOSTILE}.jsonl", "--dry-run", "--json"),
    train("--data", f"{HOSTILE}.jsonl", "--no-ui"),
    train("--data", f"{HOSTILE}.jsonl", "--json"),
    train("--data", f"{HOSTILE}.jsonl", "--columns", HOSTILE, "--dry-run"),
    train("--data", HOSTILE, "--dry-run"),
    train(*LABELLED, "--dry-run", "--backbone", HOSTILE),
    train(*LABELLED, "--dry-run", "--set", f"{HOSTILE}=1"),
    train(*LABELLED, "--dry-run", "--tau", HOSTILE),
    train(*LABELLED, "--dry-run", f"--{HOSTILE}"),
    train(*LABELLED, "--name", HOSTILE, "--no-ui"),
    ("sweep", "--preset", "starter", "--grid", f"data.train={HOSTILE},b", "--dry-run"),
    ("config", "show", "--config", f"{HOSTILE}.toml"),
    ("config", "show", "--data", HOSTILE),
    ("config", "show", "--data", HOSTILE, "--json"),
    ("presets", "show", HOSTILE),
    ("--runs-dir", HOSTILE, "doctor"),
    ("--runs-dir", HOSTILE, "runs"),
    ("--debug", "--runs-dir", HOSTILE, "watch", HOSTILE),
    ("help", HOSTILE),
    (HOSTILE,),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(HOSTILE, "HOSTILE"))
def test_control_characters_do_not_reach_the_terminal(contrast: Contrast, hostile: Run, words: tuple[str, ...]) -> None:
    answer = contrast(*words)
    printed = answer.err if words[0] == "export" else answer.out + answer.err  # a pipe gets a path as it is
    assert printed and not CONTROLS.search(printed.replace("\n", "")), printed
    if "--json" in words and answer.out:
        lines = answer.out.splitlines() if words[0] in ("watch", "train", "query") else [answer.out]
        documents = [json.loads(line) for line in (lines if "--dry-run" not in words else [answer.out])]
        assert all(documents)


def test_a_pipe_gets_a_path_as_it_is_and_a_terminal_without_control_characters(
    contrast: Contrast, hostile: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert contrast("runs", "path", HOSTILE).out == f"runs/{HOSTILE}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = contrast("runs", "path", HOSTILE).out
    assert shown.startswith(r"runs/\u001b[31ma") and not CONTROLS.search(shown[:-1])
