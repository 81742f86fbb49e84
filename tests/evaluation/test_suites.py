"""What all suites share: names, the cache of scores, where results go, and what an interruption leaves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from contrastcli.errors import DataError, UsageError
from contrastcli.evaluation import sts, suites
from contrastcli.evaluation.result import Encode, Options, Subject
from contrastcli.files import cache_dir
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.runs.directory import Run
from contrastcli.show import results
from support.sts_files import FakeEncoder, some_rows, subject, write_all, write_stsb, write_year
from support.tiny import Tiny
from support.transfer_files import write_one_file

Counted = Callable[[], int]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """How many texts the models have encoded so far."""
    total = 0
    encode = SentenceEncoder.encode

    def counting(encoder: SentenceEncoder, texts: list[str], **options: object) -> object:
        nonlocal total
        total += len(texts)
        return encode(encoder, texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(SentenceEncoder, "encode", counting)
    return lambda: total


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [("sts,transfr", "no suite 'transfr'", "'transfer'"), ("", "no suite ''", "known: clustering")],
)
def test_an_unknown_suite_is_named_with_the_nearest(words: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        suites.check_suites(words)
    assert what in raised.value.what and hint in raised.value.hint


def test_suites_are_a_list_with_commas() -> None:
    assert suites.check_suites("transfer, sts,transfer") == ("transfer", "sts")


def test_an_unknown_task_is_named_with_the_nearest() -> None:
    assert suites.check_tasks("STS12,TREC", ("sts", "transfer")) == ("STS12", "TREC")
    benchmarks = ("MTEB(eng, v1)", "MTEB(fra, v1)", "STS22")
    assert suites.check_tasks(",".join(benchmarks), ("mteb",)) == benchmarks  # which it knows better
    with pytest.raises(UsageError) as raised:
        suites.check_tasks("STS12,TRECK", ("sts", "transfer"))
    assert "no task 'TRECK' in sts, transfer" in raised.value.what and "'TREC'" in raised.value.hint


@pytest.mark.parametrize("name", ["sts", "transfer", "fewshot", "clustering"])
def test_a_suite_names_its_tasks_and_itself(name: str) -> None:
    module = suites.suite(name)
    assert module.TASKS and len(set(module.TASKS)) == len(module.TASKS)
    result = module.measure(subject(FakeEncoder()), Options(data_dir=Path("absent")))
    assert result.suite == name and not result.tasks
    assert [gap.task for gap in result.missing] == list(module.TASKS)


def test_scores_stand_beside_those_of_other_suites(tiny: Tiny, trained: Run, tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(trained.path, tmp_path / "run")))
    write_stsb(tmp_path, some_rows("stsb"))
    write_one_file(tmp_path / "agnews.tsv")
    options = Options(data_dir=tmp_path, out=tmp_path / "out")
    sts_scores = suites.evaluate(str(run.path), ("sts",), options).to_json()["suites"]["sts"]
    both = suites.evaluate(str(run.path), ("clustering",), options)
    for place in (run.path, tmp_path / "out"):
        kept = json.loads((place / "scores.json").read_text())
        assert kept["suites"] == {"sts": sts_scores, "clustering": both.to_json()["suites"]["clustering"]}
    assert kept["suites"]["clustering"]["AgNews"]["rows"] == 60


def test_some_tasks_do_not_take_the_place_of_all_in_a_run(trained: Run, tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(trained.path, tmp_path / "run")))
    write_all(tmp_path)
    suites.evaluate(str(run.path), ("sts",), Options(data_dir=tmp_path))
    whole = run.scores()
    some = suites.evaluate(str(run.path), ("sts",), Options(data_dir=tmp_path, tasks=("STS12",), out=tmp_path / "out"))
    assert list(some.results[0].tasks) == ["STS12"] and run.scores() == whole
    kept = json.loads((tmp_path / "out" / "scores.json").read_text())
    assert kept["suites"]["sts"]["STS12"] == whole["suites"]["sts"]["STS12"]


def test_a_suite_without_a_task_that_was_asked_for_is_left_out(tiny: Tiny, tmp_path: Path) -> None:
    write_stsb(tmp_path, some_rows("stsb"))
    found = suites.evaluate(str(tiny.backbone), ("transfer", "sts"), Options(data_dir=tmp_path, tasks=("STS-B",)))
    assert [result.suite for result in found.results] == ["sts"]


def test_nothing_is_measured_twice(tiny: Tiny, tmp_path: Path, encoded: Counted) -> None:
    write_all(tmp_path)
    first = suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path))
    before = encoded()
    assert suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path)) == first
    assert encoded() == before > 0


def test_what_the_cache_knows_is_measured_again_on_request(tiny: Tiny, tmp_path: Path, encoded: Counted) -> None:
    write_all(tmp_path)
    first = suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path))
    before = encoded()
    assert suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path, fresh=True)) == first
    assert encoded() == 2 * before


def test_only_what_the_cache_does_not_know_is_encoded(tiny: Tiny, tmp_path: Path, encoded: Counted) -> None:
    write_all(tmp_path)
    suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path))
    before = encoded()
    write_stsb(tmp_path, some_rows("other", 8))
    suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path))
    assert encoded() - before == 16


def test_other_data_another_pooling_or_another_model_are_measured_anew(
    tiny: Tiny, trained: Run, tmp_path: Path, encoded: Counted
) -> None:
    write_stsb(tmp_path, some_rows("stsb"))

    def measured(model: Path, pooling: str | None = None) -> int:
        before = encoded()
        suites.evaluate(str(model), ("sts",), Options(data_dir=tmp_path), pooling)  # type: ignore[arg-type]
        return encoded() - before

    assert [measured(tiny.backbone), measured(tiny.backbone)] == [12, 0]
    assert [measured(tiny.backbone, "cls"), measured(trained.path)] == [12, 12]
    write_stsb(tmp_path, some_rows("stsb", 7))
    assert measured(tiny.backbone) == 14
    write_stsb(tmp_path, [(a, b, str(5 - float(gold))) for a, b, gold in some_rows("stsb", 7)])
    assert measured(tiny.backbone) == 14


def test_a_damaged_or_unwritable_cache_costs_time_and_nothing_else(
    tiny: Tiny, tmp_path: Path, encoded: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stsb(tmp_path, some_rows("stsb"))
    first = suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path))
    [entry] = (cache_dir() / "scores").iterdir()
    for damage in (b"", b'{"pairs": 6', b"[1]"):
        entry.write_bytes(damage)
        assert suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path)) == first
    assert encoded() == 4 * 12
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONTRAST_CACHE", str(tmp_path / "file"))
    assert suites.evaluate(str(tiny.backbone), ("sts",), Options(data_dir=tmp_path)) == first


def test_an_interrupted_evaluation_keeps_what_is_done_and_goes_on_there(
    trained: Run, tmp_path: Path, encoded: Counted
) -> None:
    run = Run(Path(shutil.copytree(trained.path, tmp_path / "run")))
    write_all(tmp_path)
    write_one_file(tmp_path / "agnews.tsv")
    write_one_file(tmp_path / "tweet.tsv", classes=2)

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "clustering Tweet":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        suites.evaluate(str(run.path), ("sts", "clustering"), Options(data_dir=tmp_path, on_progress=interrupt))
    assert list(run.scores()["suites"]) == ["sts"]
    before = encoded()
    suites.evaluate(str(run.path), ("sts", "clustering"), Options(data_dir=tmp_path))
    assert encoded() - before == 40  # the distinct texts of Tweet
    assert list(run.scores()["suites"]) == ["sts", "clustering"]


def test_progress_tells_of_tasks_and_of_texts(tiny: Tiny, tmp_path: Path) -> None:
    write_year(tmp_path, "STS13")
    write_stsb(tmp_path, some_rows("stsb"))
    told: list[tuple[str, int, int]] = []
    options = Options(data_dir=tmp_path, tasks=("STS13", "STS-B"), on_progress=lambda *words: told.append(words))
    suites.evaluate(str(tiny.backbone), ("sts",), options)
    assert [words for words in told if words[0] == "sts"] == [("sts", 0, 2), ("sts", 1, 2), ("sts", 2, 2)]
    assert ("encoding", 54, 54) in told


def test_a_model_whose_vectors_are_no_numbers_is_an_error(tmp_path: Path) -> None:
    write_stsb(tmp_path, some_rows("stsb"))
    broken: Encode = lambda texts: np.full((len(texts), 3), np.nan)  # noqa: E731
    with pytest.raises(DataError, match="not finite"):
        sts.measure(subject(broken), Options(data_dir=tmp_path))


def test_each_suite_has_its_table_and_its_protocol_on_the_screen(tiny: Tiny, tmp_path: Path) -> None:
    write_stsb(tmp_path, some_rows("stsb"))
    write_one_file(tmp_path / "agnews.tsv")
    found = suites.evaluate(str(tiny.backbone), ("sts", "transfer", "clustering"), Options(data_dir=tmp_path))
    text = results.scores([found], False)
    for task in ("STS12", "STS-B", "AgNews", "GoogleNews-T"):
        assert [line.split()[0] for line in text.splitlines() if line.startswith(f"{task} ")] == [task]
    assert "sts: test splits as SentEval's" in text and "clustering: KMeans" in text
    assert "transfer" not in text  # nothing of it was there
    assert json.loads(results.scores([found], True))["suites"]["transfer"]["missing"].keys() == {
        *suites.suite("transfer").TASKS
    }


def test_a_file_of_word_vectors_is_measured_as_a_model_is(tmp_path: Path) -> None:
    write_stsb(tmp_path, [("a cat", "the cat", "4"), ("a dog", "a cat", "2"), ("dog dog", "the the", "0")])
    (tmp_path / "glove.txt").write_text("a 1 0 0\nthe 0.5 0.5 0\ncat 0 1 0\ndog 0 0 1\n")
    found = suites.evaluate(str(tmp_path / "glove.txt"), ("sts",), Options(data_dir=tmp_path))
    assert found.results[0].tasks["STS-B"]["all"]["spearman"] == pytest.approx(100)
    assert "word vectors" in found.results[0].protocol


def test_a_subject_without_a_model_reads_whole_texts() -> None:
    some = Subject("words", FakeEncoder(), "average", "1")
    with some.truncated(64):
        assert some.encoder is None
