"""Presets as they are typed on a machine that has nothing yet, with a hub on the loopback address."""

import json
from pathlib import Path

import pytest

from contrastcli.runs.directory import Run
from support.command import Contrast
from support.hub import Hub, publish
from support.tiny import Tiny

SETS = {
    "pairsupcon-base": ["princeton-nlp/datasets-for-simcse"],
    "simace-bert-base": ["princeton-nlp/datasets-for-simcse", "sentence-transformers/stsb"],
}


@pytest.mark.parametrize("preset", ["pairsupcon-base", pytest.param("simace-bert-base", marks=pytest.mark.slow)])
def test_a_preset_runs_as_it_is_typed(tiny: Tiny, contrast: Contrast, served_hub: Hub, preset: str) -> None:
    publish(served_hub, tiny)
    answer = contrast("train", "--preset", preset, "--no-ui", "--max-steps", "2")
    assert answer.code == 0, answer.err
    run = Run(Path(answer.out.strip()))
    assert run.status().state == "finished"
    model = json.loads(run.environment_path.read_text())["backbone"]
    assert model["revision"] == served_hub.models["google-bert/bert-base-uncased"].commit
    for name in (*SETS[preset], "bert-base-uncased"):
        assert f"progress  downloading {name} (MB)  1/1\n" in answer.err
    assert "%|" not in answer.err and "\r" not in answer.err
    asked = served_hub.downloads()
    assert len(asked) == len(set(asked)), "nothing is downloaded twice"
