"""The last word on a training: how the best checkpoint compares with the model before, on the dev and a general set."""

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from contrastcli.commands.compare import dev_data
from contrastcli.data.dev_data import load_general
from contrastcli.errors import DataError
from contrastcli.evaluation.significance import RESAMPLES, compare_models, interval, resampled
from contrastcli.runs.alerts import Rules
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Alert, Done, Note, Progress, Saved, Verdict
from contrastcli.runs.measured import Evaluated
from contrastcli.runs.verdict import Change, against
from contrastcli.settings.sections import Alerts, Data, Dev
from contrastcli.training.dev import DevSet
from contrastcli.training.plan import make_plan
from support.command import Contrast
from support.contracts import write_embedder
from support.resuming import train_with_a_kill
from support.signs import evaluated, say
from support.tiny import Tiny, known, on_step, told, train

RUN = {"dev__every": 4, "train__max_steps": 12}


def last(run: Run) -> Verdict:
    return told(run, Verdict)[-1]


def test_a_run_is_compared_with_its_backbone_as_published(tiny: Tiny, tmp_path: Path) -> None:
    """Under the run's prompts the backbone may be worse than under its own, which its users had before."""
    model = replace(tiny, backbone=write_embedder(tiny.backbone, tmp_path / "embedder"))
    changes: dict[str, dict[str, object]] = {
        "": {},
        "without this run's prompts": {"model__prompts": "anchor=ask: ,positive=say: "},
        "without this run's head": {"model__head": "keep"},
        "without this run's pooling and suffix": {"model__pooling": "cls", "model__suffix": " ba"},
    }
    runs = [model.run(tmp_path / str(n), "simcse", "pairs", **RUN, **more) for n, more in enumerate(changes.values())]
    stopped = Run(Path(shutil.copytree(runs[-1].path, tmp_path / "stopped")))

    def stop(event: Event) -> None:
        if isinstance(event, Note) and event.text.startswith("without this run's"):
            stopped.stop_path.touch()

    for run, what in zip(runs, changes, strict=True):
        train(run)
        notes = [note.text for note in told(run, Note) if "without this run's" in note.text]
        assert [note.partition(" the backbone has ")[0] for note in notes] == [what] * bool(what)
        assert last(run).base == "embedder" and last(run).change.before == last(runs[0]).change.before
    assert train(stopped, stop).step == 0
    train(stopped)
    assert last(stopped).change == last(runs[-1]).change


def test_the_texts_of_the_backbone_as_published_are_all_that_its_own_prompts_make(tiny: Tiny, tmp_path: Path) -> None:
    model = replace(tiny, backbone=write_embedder(tiny.backbone, tmp_path / "embedder"))
    dev = tmp_path / "dev.jsonl"
    # Without prompts each text is one, whether it is a query or a document.
    pairs = [(f"den {n}", f"den {n + 1}") for n in range(20)]
    dev.write_text("".join(json.dumps({"anchor": a, "positive": b}) + "\n" for a, b in pairs))
    more = {"dev__data": str(dev), "model__prompts": "none"}
    run = model.trained(tmp_path / "run", "simcse", "pairs", train__max_steps=1, **more)
    (*_, end) = [one for one in told(run, Progress) if one.what.endswith("as published")]
    assert end.done == end.total


def judgements(effect: float, evaluations: int, trainings: int = 200) -> list[str]:
    """Of simulated trainings: each query's nDCG before, and after each evaluation, of which the best is taken."""
    draws = [np.random.default_rng(seed) for seed in range(trainings)]
    before = np.stack([draw.choice([0.0, 0.3, 0.5, 1.0], 250) for draw in draws], axis=1)  # (queries, trainings)
    first, most, best = resampled(before), np.array(-np.inf), np.full((1 + RESAMPLES, trainings), -np.inf)
    for _ in range(evaluations):
        moved = np.stack([draw.random(250) < 0.3 for draw in draws], axis=1)
        other = np.stack([draw.choice([0.0, 0.3, 0.5, 1.0], 250) for draw in draws], axis=1)
        now = resampled(np.where(moved, other, before) + effect)
        most = np.fmax(most, (now - first)[1:] - (now - first)[0])
        best = np.where(now[0] > best[0], now, best)
    found = []
    for n in range(trainings):
        low, high = interval((best - first)[:, n], most[:, n])
        found.append(str(Change(before=first[0, n], after=best[0, n], low=low, high=high).judgement))
    return found


@pytest.mark.parametrize("evaluations", [1, 10])
def test_trainings_without_effect_are_not_called_better(evaluations: int) -> None:
    assert judgements(0.0, evaluations).count("not different") >= 0.93 * 200


def test_an_effect_is_seen() -> None:
    assert judgements(0.1, 10, 20).count("better") == 20
    assert judgements(-0.2, 3, 20).count("worse") == 20


def test_the_verdict_is_that_of_the_two_models_on_the_dev_set(tiny: Tiny, place: Path) -> None:
    run = tiny.trained(place, "simcse", "pairs", dev__data="split:20%", dev__general=str(tiny.dev), **RUN)
    verdict, models = last(run), [("before", str(tiny.backbone)), ("after", str(run.path))]
    plan = make_plan(run.config())
    assert plan.dev and plan.general and verdict.general and verdict.general.metric == "spearman"
    for change, data in ((verdict.change, plan.dev), (verdict.general, plan.general)):
        (test,) = compare_models(models, data)
        assert (change.before, change.after) == pytest.approx((test.change.before, test.change.after), abs=1e-5)
        assert change.high == pytest.approx(test.change.high, abs=2e-3) and change.low and test.change.low
        # The checkpoint was chosen by the one, not by the other.
        assert change.low <= test.change.low + 2e-3
        assert change is verdict.change or change.low == pytest.approx(test.change.low, abs=2e-3)
    assert (verdict.base, verdict.best_step) == ("backbone", run.status().best_step)
    assert run.scores()["verdict"]["change"]["after"] == verdict.change.after
    assert json.loads(run.events_path.read_text().splitlines()[-2])["event"] == "verdict"
    # Forgetting is shown where it happens, and the alert comes before the end.
    scores = [event.general for event in told(run, Evaluated)]
    assert all(scores) and "general Spearman" in told(run, Evaluated)[-1].line()
    assert all(a.before == b.before for a, b in pairwise(filter(None, scores)))
    assert [alert.rule for alert in told(run, Alert)] in ([], ["forgetting"])


def test_a_killed_run_has_the_verdict_of_an_undisturbed_one(tiny: Tiny, place: Path) -> None:
    undisturbed = tiny.run(place, dev__general=str(tiny.dev), train__save_every=3, **RUN)
    run = train_with_a_kill(undisturbed, 7)
    assert last(run).change == last(undisturbed).change and last(run).general == last(undisturbed).general


def test_the_verdict_ends_what_the_command_line_says(tiny: Tiny, place: Path, contrast: Contrast) -> None:
    run = tiny.run(place, "simcse", "pairs", dev__data="split:20%", **RUN)
    answer = contrast("train", "--resume", str(place), "--no-ui")
    *_, words, finished, _next = answer.err.splitlines()
    assert words == last(run).line() and words.startswith("verdict   ") and finished.startswith("finished")
    change = last(run).change
    before = 100 * known((change.before,))[0]
    said = f"{against(change.judgement, 'backbone')}, at step {last(run).best_step}: nDCG@10 {before:.2f} →"
    assert said in words
    assert last(run).details(0) in contrast("runs", "show", str(place)).out


def test_the_command_that_mends_it_can_be_copied(tiny: Tiny, place: Path, contrast: Contrast) -> None:
    run = tiny.run(place)
    change = Change(before=0.5, after=0.6, low=0.05, high=0.15)
    verdict = Verdict(step=9, base="e5", best_step=9, change=change, hint="contrast merge e5 mine -o mine-merged")
    say(run, verdict, Done(step=9, status="finished", code=0))
    answer = contrast("--runs-dir", str(place.parent), "watch", place.name)
    assert f"hint: contrast --runs-dir {place.parent} merge e5 mine -o mine-merged\n" in answer.err


@pytest.mark.parametrize("changes", [{"model__head": "keep"}, {"model__prompts": "anchor=ask: ,positive=say: "}, {}])
def test_a_merge_mends_what_has_other_weights_of_its_backbone_alone(
    tiny: Tiny, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    monkeypatch.setattr(Change, "judgement", "worse")
    model = replace(tiny, backbone=write_embedder(tiny.backbone, tmp_path / "embedder"))
    run = model.trained(place, "simcse", "pairs", dev__general=str(tiny.dev), **RUN, **changes)
    (forgetting,) = [alert.hint for alert in told(run, Alert) if alert.rule == "forgetting"]
    merge = f"contrast merge {model.backbone} {run.name} -o {run.name}-merged"
    assert last(run).hint == ("train again with a lower --lr" if changes else merge)
    assert (merge in forgetting) == (not changes) and f"contrast stop {run.word}, " in forgetting


def test_a_general_score_that_falls_by_more_than_its_interval_is_said_once() -> None:
    def alerts(*highs: float) -> list[tuple[str, int, str]]:
        rules = Rules(Alerts(), merge="contrast merge e5 mine -o mine-merged")
        changes = [Change(before=0.75, after=0.7, low=-0.2, high=high) for high in highs]
        events = [structs.replace(evaluated(step, 0.5), general=change) for step, change in enumerate(changes, 1)]
        alerts = (alert for event in events for alert in rules(event))
        return [(alert.rule, alert.step, alert.hint.partition("after it: ")[2]) for alert in alerts]

    forgetting = "forgetting", 2, "contrast merge e5 mine -o mine-merged"
    assert alerts(0.1, -0.01, -0.05) == [forgetting] and alerts(0.1, 0.0) == []


def test_the_best_checkpoint_may_have_to_keep_the_general_score(tiny: Tiny, place: Path, tmp_path: Path) -> None:
    changes = {"dev__general": str(tiny.dev), "dev__data": "split:20%", "train__lr": 5e-3, **RUN}
    free = tiny.trained(tmp_path / "free", "simcse", "pairs", **changes)
    events = [event for event in told(free, Evaluated) if event.step]
    general = {event.step: known((event.general.before, event.general.after)) for event in events if event.general}
    falls = {step: 100 * (before - after) for step, (before, after) in general.items()}
    assert len(set(falls.values())) == 3
    allowed = sorted(falls.values())[0] + 1e-3
    bound = tiny.trained(place, "simcse", "pairs", dev__keep_general=max(allowed, 1e-6), **changes)
    best = {event.step for event in told(bound, Evaluated) if event.best}
    assert best <= {step for step, fall in falls.items() if fall <= max(allowed, 1e-6)} and len(best) <= 1


def test_dev_scores_that_a_lower_general_one_rules_out_are_said(
    tiny: Tiny, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DevSet, "keeps_general", lambda dev, most: False)
    bound = {"dev__general": str(tiny.dev), "dev__keep_general": 1.0, "dev__patience": 2, "alerts__evaluations": 2}
    run = tiny.trained(place, "simcse", "pairs", dev__data="split:20%", **bound, **RUN)
    assert [event.forgetful for event in told(run, Evaluated)] == [False, True, True]
    assert "(too low for a best)" in told(run, Evaluated)[-1].line()
    (stalled,) = [alert.text for alert in told(run, Alert) if alert.rule == "stalled"]
    assert stalled == "no better dev score that keeps dev.keep_general in 2 evaluations: it has no best"
    stopped, kept = [note.text for note in told(run, Note)][-2:]
    assert stopped == "stopped early: 2 evaluations without a best that keeps dev.keep_general"
    assert kept == "no evaluation with a dev score kept dev.keep_general 1: the last checkpoint is the model"
    assert last(run).hint.startswith("contrast merge ")


def test_a_run_is_resumed_with_the_general_set_that_it_began_with(tiny: Tiny, place: Path, tmp_path: Path) -> None:
    general = tmp_path / "general.jsonl"
    shutil.copy(tiny.dev, general)
    run = tiny.run(place, "simcse", "pairs", dev__general=str(general), dev__data="split:20%", **RUN)
    train(run, on_step(2, run.stop_path.touch))
    assert told(run, Verdict) == [], "it stopped before it was measured"
    general.write_text("".join(general.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=r"the rows of .*general\.jsonl are not those that the run began with"):
        train(run)
    # Which a test on the dev set does not need.
    assert len(dev_data([run])) > 2


@pytest.mark.parametrize(
    ("dev", "general"), [("split:5%", "starter"), ("own.csv", "starter"), ("stsb", ""), ("starter", ""), ("none", "")]
)
def test_beside_data_of_ones_own_the_starter_is_general(dev: str, general: str) -> None:
    data = load_general(Dev(data=dev), Data())
    assert (data.source if data else "") == general


def test_columns_of_a_general_set_have_the_roles_of_the_training_ones(tmp_path: Path) -> None:
    path = tmp_path / "general.csv"
    path.write_text("id,question,answer\n" + "".join(f"{n},ba {n},den {n}\n" for n in range(9)))
    data = load_general(Dev(data="split:5%", general=str(path)), Data(columns="anchor=question,positive=answer"))
    assert data and list(data.columns[0][:2]) == ["ba 0", "ba 1"] and data.metric == "ndcg@10"


def test_blank_rows_of_a_general_set_are_left_out_as_those_of_the_data(tmp_path: Path) -> None:
    path = tmp_path / "general.csv"
    path.write_text("anchor,positive\nba,den\nfir,go\nden,\n")
    dev = Dev(data="split:5%", general=str(path))
    with pytest.raises(DataError, match="blank") as refusal:
        load_general(dev, Data())
    assert "--blank drop" in refusal.value.hint and "--general none" in refusal.value.hint
    assert len(load_general(dev, Data(blank="drop")) or ()) == 2


def test_a_verdict_keeps_what_was_measured_meanwhile_and_survives_a_bad_file(tiny: Tiny, place: Path) -> None:
    run = tiny.run(place, train__max_steps=2)
    sts = '{"model": "m", "suites": {"sts": {}}}'
    train(run, lambda event: run.scores_path.write_text(sts) if isinstance(event, Saved) else None)
    assert run.scores()["suites"] == {"sts": {}} and run.scores()["verdict"]["base"] == "backbone"
    other = tiny.run(place.parent / "other", train__max_steps=2)
    other.scores_path.write_text("[]")
    assert train(other).status == "finished" and last(other).base == "backbone"
    assert any(note.text.startswith("the scores do not hold the verdict") for note in told(other, Note))
