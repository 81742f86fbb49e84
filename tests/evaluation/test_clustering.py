"""Clustering: the files of the sets, and agreement with their classes."""

import itertools
import re
import statistics
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from contrastcli.errors import DataError
from contrastcli.evaluation import clustering
from contrastcli.evaluation.clustering import agreement, read, root
from contrastcli.evaluation.evaluate import evaluate
from contrastcli.evaluation.measure import measure
from contrastcli.evaluation.procedure import Options
from contrastcli.evaluation.suites import CLUSTERING
from contrastcli.model.contract import Contract
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.pooling import Normalize
from contrastcli.settings.sections import Kind
from support.contracts import under
from support.sts_files import problem, subject, write_lines
from support.tables import cells
from support.tiny import Tiny
from support.transfer_files import HalfKnowing, measured, texts, write_one_file

LABELS = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
CLUSTERS = [2, 2, 0, 1, 1, 1, 2, 0, 0, 1]


def write_two_files(folder: Path, name: str, classes: int = 3, count: int = 20, first: int = 1) -> None:
    write_lines(folder / f"{name}.txt", [text for label in range(classes) for text in texts("c", label, count)])
    write_lines(folder / f"{name}_gnd.txt", [str(label + first) for label in range(classes) for _ in range(count)])


def test_agreement_is_that_of_the_best_assignment_of_clusters_to_classes() -> None:
    right = max(
        sum(names[cluster] == label for label, cluster in zip(LABELS, CLUSTERS, strict=True))
        for names in itertools.permutations(range(3))
    )
    scores = agreement(np.array(LABELS), np.array(CLUSTERS))
    expected = {"accuracy": 100 * right / 10, "nmi": 44.270, "ami": 23.729, "ari": 20.455}  # sklearn's, by their names
    assert scores == pytest.approx(expected, abs=1e-3)
    other_names = agreement(np.array(LABELS), np.array([{0: 2, 1: 0, 2: 1}[label] for label in LABELS]))
    assert other_names == pytest.approx(dict.fromkeys(expected, 100))
    one_cluster = agreement(np.array(LABELS), np.zeros(10, dtype=int))
    assert one_cluster["accuracy"] == pytest.approx(40)


def test_scores_are_means_over_ten_seeds_of_kmeans(tmp_path: Path) -> None:
    write_one_file(tmp_path / "agnews.tsv")
    encode = HalfKnowing(2.0)
    scores = measured(CLUSTERING, encode, tmp_path, "AgNews").tasks["AgNews"]
    x = np.stack([encode.vector(text) for label in range(3) for text in texts("c", label, 20)])
    y = np.repeat([0, 1, 2], 20)
    trials = [agreement(y, KMeans(3, n_init=10, random_state=seed).fit_predict(x)) for seed in range(10)]
    for name in ("accuracy", "nmi", "ami", "ari"):
        assert scores[name] == pytest.approx(statistics.mean(trial[name] for trial in trials))
    assert scores["sd"] == pytest.approx(statistics.stdev(trial["accuracy"] for trial in trials))
    assert 50 < scores["accuracy"] < 100


def test_vectors_keep_their_length(tmp_path: Path) -> None:
    write_one_file(tmp_path / "agnews.tsv", classes=2)

    def lengths(texts: list[str], kind: Kind | None) -> NDArray[np.float32]:
        return np.array([[1.0 if text.endswith("#0") else 9.0, 0.0] for text in texts], dtype=np.float32)

    suite = measure(CLUSTERING, subject(lengths), Options(data_dir=tmp_path, tasks=("AgNews",)))
    assert suite.tasks["AgNews"]["accuracy"] == 100


def test_texts_are_read_up_to_64_tokens_and_the_model_is_as_before(tmp_path: Path) -> None:
    write_one_file(tmp_path / "agnews.tsv", classes=2)
    encoder = SimpleNamespace(max_length=256, contract=Contract(Path()))
    seen: list[int] = []

    def encode(texts: list[str], kind: Kind | None) -> NDArray[np.float32]:
        seen.append(encoder.max_length)
        return HalfKnowing()(texts)

    some = replace(subject(encode), encoder=cast(SentenceEncoder, encoder))
    measure(CLUSTERING, some, Options(data_dir=tmp_path, tasks=("AgNews",)))
    assert (seen, encoder.max_length) == ([64], 256)


@pytest.mark.parametrize("first", [0, 1])
def test_classes_may_be_counted_from_0_or_1_in_either_form(tmp_path: Path, first: int) -> None:
    write_one_file(tmp_path / "StackOverflow.tsv", first=first)
    write_two_files(tmp_path, "Biomedical", first=first)
    for task in ("StackOverflow", "Biomedical"):
        data = read(tmp_path, task)
        assert data.labels == [0] * 20 + [1] * 20 + [2] * 20
        assert (data.first[0], data.first[-1]) == ("c 0 #0", "c 19 #2")


def test_quotes_white_space_and_encodings_are_read_as_in_the_published_files(tmp_path: Path) -> None:
    rows = ['3\t"a quote  opens\there', "10\tplain", "3\tcaf\u00e9 "]
    write_lines(tmp_path / "agnews.tsv", rows, encoding="latin-1", end="\r\n")
    data = read(tmp_path, "AgNews")
    assert data.first == ['"a quote opens here', "plain", "café"]
    assert data.labels[0] == data.labels[2] != data.labels[1]


@pytest.mark.parametrize(
    ("file", "task"),
    [
        ("agnewsdataraw-8000", "AgNews"),
        ("SearchSnippets.txt", "SearchSnippets"),
        ("stack_overflow.txt", "StackOverflow"),
        ("biomedical.tsv", "Biomedical"),
        ("tweet", "Tweet"),
        ("googlenews_TS.txt", "GoogleNews-TS"),
        ("S", "GoogleNews-S"),
        ("T.tsv", "GoogleNews-T"),
    ],
)
def test_a_set_is_found_by_the_names_in_circulation(tmp_path: Path, file: str, task: str) -> None:
    write_one_file(tmp_path / file)
    write_lines(tmp_path / "notes.txt", ["of no set"])
    assert len(read(tmp_path, task)) == 60


@pytest.mark.parametrize(("asked", "lies"), [("d", "d"), ("d", "d/cluster"), ("d/senteval", "d/cluster")])
def test_the_folder_may_be_that_of_the_sets_the_one_above_or_one_next_to_it(
    tmp_path: Path, asked: str, lies: str
) -> None:
    (tmp_path / "d" / "senteval").mkdir(parents=True)
    write_one_file(tmp_path / lies / "agnews.tsv")
    assert root(tmp_path / asked).resolve() == (tmp_path / lies).resolve()


def test_without_a_folder_every_set_is_missing_with_the_remedy() -> None:
    result = measure(CLUSTERING, subject(HalfKnowing()), Options())
    assert list(result.missing) == list(CLUSTERING.tasks) and not result.tasks
    assert all("--data-dir" in error.hint for error in result.missing.values())


def test_the_hint_for_a_file_of_another_name_says_which_counts(tmp_path: Path) -> None:
    write_one_file(tmp_path / "codes.tsv")
    with pytest.raises(DataError, match="holds none of the clustering sets") as caught:
        root(tmp_path)
    name = re.search(r"DIR/(\S+\.tsv), and --task (\w+)", caught.value.hint)
    assert name
    (tmp_path / "codes.tsv").rename(tmp_path / name[1])
    assert len(read(root(tmp_path), name[2])) == 60


def test_what_is_missing_or_malformed_is_named_and_the_others_are_scored(tmp_path: Path) -> None:
    write_one_file(tmp_path / "agnews.tsv")
    write_lines(tmp_path / "tweet.txt", ["1\ttext", "no tab"])
    write_two_files(tmp_path, "Biomedical")
    write_lines(tmp_path / "Biomedical_gnd.txt", ["1"] * 30)
    write_lines(tmp_path / "SearchSnippets.txt", ["1\tone", "1\tclass"])
    write_lines(tmp_path / "googlenews_S.txt", [])
    result = measured(CLUSTERING, HalfKnowing(), tmp_path)
    assert set(result.tasks) == {"AgNews"}
    assert "tweet.txt, line 2: not a label, a tab and a text: 'no tab'" in problem(result, "Tweet")[0]
    assert "only one of them has a line 31" in problem(result, "Biomedical")[0]
    assert all("fewer than two classes" in problem(result, task)[0] for task in ("SearchSnippets", "GoogleNews-S"))
    assert "no file of StackOverflow" in problem(result, "StackOverflow")[0]
    rows = cells(result)
    assert (rows["AgNews"]["Rows"], rows["AgNews"][""]) == ("60", "partial, of 8,000")
    assert (rows["Tweet"][""], rows["Avg."]["Accuracy"], rows["Avg."][""]) == ("missing", "–", "partial")


def test_the_average_is_of_eight_complete_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "SEEDS", 2)
    for task in CLUSTERING.tasks:
        write_one_file(tmp_path / f"{task}.tsv")
    assert measured(CLUSTERING, HalfKnowing(), tmp_path).averages == {"average": None}
    small = replace(CLUSTERING, tasks=dict.fromkeys(CLUSTERING.tasks, (60, 3)))
    result = measured(small, HalfKnowing(), tmp_path)
    assert not result.partial
    assert result.averages["average"] == pytest.approx(sum(s["accuracy"] for s in result.tasks.values()) / 8)
    assert list(cells(result)) == [*CLUSTERING.tasks, "Avg."]


@pytest.mark.parametrize(("normalize", "words"), [(False, "not normalised"), (True, "unit length")])
def test_the_protocol_says_how_long_the_vectors_are(tiny: Tiny, tmp_path: Path, normalize: bool, words: str) -> None:
    write_one_file(tmp_path / "agnews.tsv")
    encoder = load_encoder(tiny.backbone)
    under(encoder, *[Normalize()] * normalize)
    save_encoder(encoder, tmp_path / "model")
    scores = evaluate(str(tmp_path / "model"), (CLUSTERING,), Options(tmp_path, ("AgNews",)))
    assert f"on the embeddings as the model gives them: {words}, pooling: mean" in scores.results[0].protocol
