"""Packages of others: the files that a help topic prints, installed as pip does it, and what then runs."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from contrastcli.commands.help import FOLDER, topic
from contrastcli.evaluation import suites
from contrastcli.settings import catalogue

ROOT = FOLDER.parents[1]


def files_of_topic(name: str) -> dict[str, str]:
    """The files that `contrast help NAME` prints in a narrow terminal, by the path in their first line."""
    text = topic(name, 60, {})
    blocks = re.findall(r"^    # (\S+\.\S+)\n((?:    .*\n|\n)+)", text, re.M)
    return {path: dedent(block) for path, block in blocks}


def install(files: dict[str, str], site: Path) -> None:
    """A package as pip installs it: its modules, and its entry points next to them."""
    project = tomllib.loads(files["pyproject.toml"])
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    name, version = project["project"]["name"], project["project"]["version"]
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["project"]["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (about / "entry_points.txt").write_text("".join(lines))


def bring_objective(monkeypatch: pytest.MonkeyPatch, name: str, load: Callable[[], object]) -> None:
    """Let an objective of another package be what `load` returns, each time that objectives are looked for."""
    entry = SimpleNamespace(name=name, value=f"{name}:SPEC", load=load, dist=None)
    points = {catalogue.ENTRY_POINTS: [entry]}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points.get(group, []))
    monkeypatch.setattr(catalogue, "outside_objectives", catalogue.outside_objectives.__wrapped__)  # without its cache


@contextmanager
def found_here(site: Path) -> Iterator[None]:
    """Let this process find what is installed in a folder, as each that starts there does, except for its options."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(site)
        patch.setattr(catalogue, "outside_objectives", cache(catalogue.outside_objectives.__wrapped__))
        patch.setattr(suites, "outside_suites", cache(suites.outside_suites.__wrapped__))
        yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
            del sys.modules[name]


def python(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


def contrast(site: Path, *words: str) -> str:
    """The stdout of a command that succeeds."""
    done = python(site, "-m", "contrastcli", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout
