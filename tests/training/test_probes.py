"""Probes: the angles of one's own pairs at every evaluation are those of a query, and training is as without them."""

import json
from pathlib import Path

import pytest

from contrastcli.runs.measured import Probed
from contrastcli.settings.sections import Dev
from support.command import Contrast
from support.resuming import state
from support.tiny import Tiny, told, train

PAIRS = [("bada boo", "foum den gir"), ("den, gir", "gir den"), ("ba", "ba")]
PROBES = "bada boo | foum den gir; den, gir|gir den ;ba | ba"


def test_probes_have_the_angles_of_a_query_also_without_a_dev_set(
    tiny: Tiny, tmp_path: Path, contrast: Contrast
) -> None:
    settings = {"dev__data": "none", "dev__every": 2, "train__max_steps": 4}
    run, plain = (
        tiny.run(tmp_path / name, "simcse", "pairs", **settings, **more)
        for name, more in (("probed", {"dev__probes": PROBES, "train__keep": 9}), ("plain", {}))
    )
    train(run)
    train(plain)
    assert state(run) == state(plain), "training is the same bit for bit"
    events = told(run, Probed)
    assert [event.step for event in events] == [0, 2, 4]
    for event in events:
        model = run.checkpoints_dir / f"{event.step:06}" if event.step else tiny.backbone
        for pair in PAIRS:
            answer = json.loads(contrast("query", *pair, "--model", model, "--json").out)
            assert event.angles[" | ".join(pair)] == pytest.approx(answer["angle_deg"], abs=1e-3)
    assert events[-1].angles["ba | ba"] == 0
    assert "probed    step 4  bada boo | foum den gir " in events[-1].line()


def test_probes_are_pairs_with_a_bar_between_and_a_semicolon_or_line_end_after_each() -> None:
    assert Dev(probes=PROBES).probe_pairs == PAIRS
    assert Dev(probes="\na dog | a cat\n\na, b | c\n").probe_pairs == [("a dog", "a cat"), ("a, b", "c")]
    assert Dev().probe_pairs == []
