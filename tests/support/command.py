"""Command lines in tests: what they print, and the form that an error must have."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

COMMAND = (sys.executable, "-m", "contrastcli")
"""The command as another process."""

LABELLED = ("--data", "tiny/labelled.jsonl")
SENTENCES = ("--objective", "simcse", "--data", "tiny/sentences.jsonl")
MODEL = ("--model", "tiny/backbone")


class Answer(NamedTuple):
    """The exit code, stdout and stderr of a command."""

    code: int
    out: str
    err: str


Contrast = Callable[..., Answer]
"""Takes the words of a command line, and `stdin` in bytes."""


def train(*words: str) -> tuple[str, ...]:
    """The words that train for two steps, with changes; the data must be among these."""
    usual = "--objective pairsupcon --backbone tiny/backbone --dev tiny/dev.jsonl --batch-size 8 --max-steps 2"
    return ("train", *usual.split(), "--general", "none", "--device", "cpu", "--precision", "fp32", *words)


def sentences() -> list[str]:
    """The texts of tiny/sentences.jsonl."""
    return [json.loads(line)["sentence"] for line in Path("tiny/sentences.jsonl").read_text().splitlines()]


def refused(answer: Answer, code: int, what: str, hint: str = "") -> None:
    """Assert that the command printed an error of two lines and nothing else."""
    assert answer.err.count("\n") == 2, answer.err
    failed(answer, code, what, hint)


def failed(answer: Answer, code: int, what: str, hint: str = "") -> None:
    """Assert that the command ended in an error of two lines, whatever it narrated before."""
    first, second, end = answer.err.split("\n")[-3:]
    assert (answer.code, answer.out, end) == (code, "", ""), answer
    assert first.startswith("contrast: error: ") and what in first, answer.err
    assert second.startswith("hint: ") and len(second) > len("hint: ") and hint in second, answer.err
