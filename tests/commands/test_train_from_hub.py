"""Presets as they are typed on a machine that has nothing yet, with a hub on the loopback address."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from contrastcli.runs.directory import Run
from support.command import COMMAND
from support.hub import Hub, publish, serving
from support.tiny import Tiny

SETS = {
    "pairsupcon-base": ["princeton-nlp/datasets-for-simcse"],
    "simace-bert-base": ["princeton-nlp/datasets-for-simcse", "sentence-transformers/stsb"],
}


@pytest.mark.parametrize("preset", SETS)
def test_a_preset_runs_as_it_is_typed(tiny: Tiny, tmp_path: Path, preset: str) -> None:
    words = ("train", "--preset", preset, "--no-ui", "--max-steps", "2")
    with serving(Hub()) as hub:
        publish(hub, tiny)
        environment = os.environ | hub.environment(tmp_path / "home")
        done = subprocess.run([*COMMAND, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    run = Run(Path(done.stdout.strip()))
    assert run.status().state == "finished"
    model = json.loads(run.environment_path.read_text())["backbone"]
    assert model["revision"] == hub.models["google-bert/bert-base-uncased"].commit
    for name in (*SETS[preset], "bert-base-uncased"):
        assert f"progress  downloading {name} (MB)  1/1\n" in done.stderr
    assert "%|" not in done.stderr and "\r" not in done.stderr
    asked = hub.downloads()
    assert len(asked) == len(set(asked)), "nothing is downloaded twice"
