"""Dev data: what is held out of training rows, and which metric fits which rows."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from contrastcli.data import relevance
from contrastcli.data.convert import adapt, hold_out, join
from contrastcli.data.dev_data import load_dev, named_pairs, resolve_dev
from contrastcli.data.examples import Examples, ScoredPairs
from contrastcli.data.relevance import Retrieval, from_rows
from contrastcli.data.texts import Texts
from contrastcli.errors import DataError, UsageError
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Data, Dev, Metric
from support.tables import scored_pairs, texts


def many(form: Form) -> Examples:
    """120 rows of 40 anchors, not in the order of the anchors."""
    anchors = [f"anchor {n % 40}" for n in range(120)]
    others = [f"text {n}" for n in range(120)]
    views = {"anchor": anchors, "positive": others, "negative": [f"not {text}" for text in others]}
    names = {"sentences": 1, "pairs": 2, "triplets": 3, "labelled": 2}[form]
    labels = [n // 40 for n in range(120)] if form == "labelled" else None
    return Examples(form, texts(**dict(list(views.items())[:names])), labels, "rows")


def scored(name: str, rows: Examples, seed: int, metric: Metric = "auto") -> tuple[Examples, ScoredPairs]:
    rest, dev = load_dev(Dev(data=name, metric=metric, split_seed=seed), Data(), rows)
    assert isinstance(dev, ScoredPairs)
    return rest, dev


def ranked(
    name: str, rows: Examples, metric: Metric = "auto", corpus: str = "", seed: int = 0
) -> tuple[Examples, Retrieval]:
    rest, dev = load_dev(Dev(data=name, metric=metric, corpus=corpus, split_seed=seed), Data(), rows)
    assert isinstance(dev, Retrieval)
    return rest, dev


def write(folder: Path, name: str, *lines: str) -> str:
    """A file of these lines."""
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


def relevant(dev: Retrieval, grade: int = 1) -> set[tuple[str, str]]:
    """The pairs of a grade, as texts."""
    return {(dev.queries[q], dev.documents[d]) for q, d, own in dev.judged.tolist() if own == grade}


@pytest.mark.parametrize("form", ["labelled", "triplets"])
def test_what_is_held_out_shares_no_anchor_with_the_rest_and_labels_and_negatives_are_scored(form: Form) -> None:
    rows = many(form)
    rest, dev = scored("split:10%", rows, seed=3, metric="spearman")
    assert len(set(dev.first)) == 4 and len(rest) == 108
    assert not set(dev.first) & set(rest.views["anchor"])
    assert set(rest.views["positive"]) | {*dev.second} >= set(rows.views["positive"])
    assert "12 of 120 rows were held out as dev data" in rest.notes
    gold = dict(zip(rows.views["positive"], rows.labels or [0] * 120, strict=True))
    assert len(dev) == (12 if form == "labelled" else 24)
    assert dev.scores == [1 - gold.get(text, 2) / 2 for text in dev.second]


def test_spellings_of_an_anchor_are_on_one_side_and_leave_other_splits_alone() -> None:
    rows = many("pairs")
    spelled = [a.upper() if n < 40 else a.replace(" ", "   ") for n, a in enumerate(rows.views["anchor"])]
    columns = {"anchor": spelled, "positive": list(rows.views["positive"])}
    for seed in range(10):
        rest, dev = ranked("split:20%", replace(rows, views=texts(**columns)), seed=seed)
        held, left = ({" ".join(text.lower().split()) for text in part} for part in (dev.queries, rest.views["anchor"]))
        assert len(held) == 8 and len(rest) == 96 and not held & left
        by_hash = sorted(set(rows.views["anchor"]), key=lambda text: sha256(f"{seed}\0{text}".encode()).digest())
        assert set(ranked("split:20%", rows, seed=seed)[1].queries) == set(by_hash[:8])


@pytest.mark.parametrize(("large", "small", "counts"), [(600, 400, {20}), (990, 2, {1}), (60, 0, {60})])
def test_an_anchor_with_more_rows_than_the_share_stays_in_training(large: int, small: int, counts: set[int]) -> None:
    """Of two such anchors without others the smaller is held out."""
    anchors = ["hot"] * large + ["hotter"] * (large + 1) * (not small) + [f"a{n}" for n in range(small)]
    views = texts(anchor=anchors, positive=[f"p{n}" for n in range(len(anchors))])
    for seed in range(10):
        rest, dev = hold_out(Examples("pairs", views, None, "x"), 0.05, seed)
        assert len(dev) in counts and len(rest) == len(anchors) - len(dev)
        assert [note for note in rest.notes if f"{len(dev):,} of {len(anchors):,} rows were held out" in note]
        assert ("hot" in dev.views["anchor"]) == (not small)


def test_held_out_scored_pairs_keep_their_scores() -> None:
    gold = [n % 6 for n in range(40)]
    views = texts(anchor=[f"a{n // 2}" for n in range(40)], positive=[f"p{n}" for n in range(40)])
    rows = Examples("scored", views, None, "x", scores=list(map(float, gold)))
    rest, dev = scored("split:25%", rows, seed=0)
    assert len(dev) == 10 and rest.scores is not None and len(rest) == len(rest.scores) == 30
    assert not set(dev.first) & set(rest.views["anchor"])
    for text, score in zip([*dev.second, *rest.views["positive"]], [*dev.scores, *rest.scores], strict=True):
        assert score == gold[int(text[1:])]


def test_other_dev_data_leaves_the_training_rows_alone(tmp_path: Path) -> None:
    rows = many("labelled")
    path = write(tmp_path, "dev.tsv", "sentence1\tsentence2\tscore", "a\tb\t1", "c\td\t2")
    rest, dev = load_dev(Dev(data=path), Data(), rows)
    assert rest is rows and dev == scored_pairs(path)
    assert load_dev(Dev(data="none"), Data(), rows) == (rows, None)


@pytest.mark.parametrize(
    ("form", "needs", "name"),
    [
        ("pairs", ("pairs",), "split:5%"),
        ("triplets", ("triplets",), "split:5%"),
        ("triplets", ("labelled",), "split:5%"),
        ("labelled", ("labelled",), "stsb"),
        ("labelled", ("triplets", "pairs"), "stsb"),
        ("sentences", ("sentences",), "stsb"),
        ("pairs", ("sentences",), "stsb"),
    ],
)
def test_dev_data_that_are_left_open_are_chosen_by_the_rows(form: Form, needs: tuple[Form, ...], name: str) -> None:
    rows = adapt(many(form), needs, ())
    chosen, notes = resolve_dev(Dev(metric="mrr@10"), rows)
    assert chosen == Dev(data=name, metric="mrr@10") and notes[0].endswith(f" is {name}")
    assert resolve_dev(Dev(data="none"), rows) == (Dev(data="none"), ())
    both = join([rows, rows], "both")
    assert resolve_dev(Dev(), both)[0].data == name


@pytest.mark.parametrize("form", ["pairs", "triplets"])
def test_held_out_pairs_are_queries_whose_positives_are_all_relevant(form: Form) -> None:
    rows = many(form)
    rest, dev = ranked("split:10%", rows)
    assert dev.metric == "ndcg@10" and len(dev) == 4 and len(rest) == 108
    assert not {*dev.queries} & {*rest.views["anchor"]}
    pairs = set(zip(rows.views["anchor"], rows.views["positive"], strict=True))
    assert relevant(dev) == {pair for pair in pairs if pair[0] in dev.queries} and len(relevant(dev)) == 12
    assert sorted(dev.documents) == sorted({*rows.views["positive"], *rows.views.get("negative", ())})
    own = 12 if form == "pairs" else 24
    told = f"the dev metric is nDCG@10 of 4 anchors among {len(dev.documents)} texts, {len(dev.documents) - own}"
    assert any(note.startswith(told) for note in rest.notes)


def test_entailments_are_relevant_where_labelled_pairs_are_ranked() -> None:
    rows = many("labelled")
    _, dev = ranked("split:50%", rows, metric="map")
    entailed = [pair for *pair, label in zip(*rows.views.values(), rows.labels or [], strict=True) if label == 0]
    assert relevant(dev) == {(a, b) for a, b in entailed if a in dev.queries}


def test_equal_texts_are_one_document_and_an_anchor_is_none_of_its_own() -> None:
    views = {"anchor": ["a", "a", "b", "c", "d"], "positive": ["b", "b", "a", "x", "d"]}
    dev = from_rows(Examples("pairs", texts(**views), None, "rows"), Texts.of(["x", "y", "y", "b"]), "map")
    assert dev.queries == ["a", "b", "c"]  # the row of d says nothing
    assert dev.notes[-1] == "the dev metric is MAP of 3 anchors among 5 texts, 2 out of 2 others"
    alone = Examples("pairs", texts(anchor=["a", "b"], positive=["b", "a"]), None, "rows")
    assert from_rows(alone, Texts.of(["b"]), "map").notes[-1] == "the dev metric is MAP of 2 anchors among 2 texts"
    assert sorted(dev.documents) == ["a", "b", "d", "x", "y"]
    assert relevant(dev) == {("a", "b"), ("b", "a"), ("c", "x")}
    assert relevant(dev, grade=0) == {("a", "a"), ("b", "b")}


def test_a_file_of_pairs_is_ranked_among_training_texts_or_a_corpus(tmp_path: Path) -> None:
    pairs = write(tmp_path, "dev.tsv", "question\tanswer", "q1\ta1", "q2\ta2")
    rows = many("pairs")
    rest, dev = ranked(pairs, rows)
    assert len(rest) == len(rows) and {*dev.documents} == {"a1", "a2", *rows.views["positive"]}
    _, dev = ranked(pairs, rows, corpus=write(tmp_path, "corpus.txt", "one", "two", "a1"))
    assert {*dev.documents} == {"a1", "a2", "one", "two"}


@pytest.mark.parametrize("metric", ["auto", "spearman"])
def test_what_is_unusual_of_dev_data_is_said_before_training(tmp_path: Path, metric: Metric) -> None:
    path = tmp_path / "dev.csv"
    scores = ["score", "1", "2", "3"] if metric == "spearman" else ["note"] * 4
    texts = ["question;answer", "wo ist das Café?;hier", "wo ist das Café?;dort", "was?;das"]
    path.write_bytes("\n".join(map(";".join, zip(texts, scores, strict=True))).encode("cp1252"))
    rest, _ = load_dev(Dev(data=str(path), metric=metric), Data(), many("pairs"))
    told = "; ".join(rest.notes)
    assert "dev data: " in told and "fields separated by semicolons; Windows-1252" in told
    assert ("1 of 3 rows repeat an anchor, and are one query with it" in told) == (metric == "auto")


DEV_COLUMNS: list[tuple[str, Form, str, list[str]]] = [
    ("frage,antwort", "pairs", "anchor=frage,positive=antwort", ["x", "u"]),
    ("text,reply,note", "pairs", "anchor=text,positive=reply", ["x", "u"]),
    ("query,text,reply", "pairs", "anchor=text,positive=reply", ["y", "v"]),
    ("anchor,positive", "sentences", "text=anchor", ["x", "u"]),
    ("text,title,label", "pairs", "anchor=title,positive=text", ["y", "v"]),
    ("text,label", "pairs", "anchor=text,positive=label", ["x", "u"]),
]


@pytest.mark.parametrize(("header", "form", "columns", "queries"), DEV_COLUMNS)
def test_dev_columns_have_the_roles_of_the_training_columns(
    tmp_path: Path, header: str, form: Form, columns: str, queries: list[str]
) -> None:
    width = header.count(",") + 1
    path = write(tmp_path, "dev.csv", header, ",".join("xyz"[:width]), ",".join("uvw"[:width]))
    _, dev = load_dev(Dev(data=path), Data(columns=columns), many(form))
    assert isinstance(dev, Retrieval) and dev.queries == queries


def test_scores_of_a_dev_set_count_next_to_columns_that_training_names(tmp_path: Path) -> None:
    path = write(tmp_path, "dev.csv", "question,answer,score", "a,b,1", "c,d,2")
    _, dev = load_dev(Dev(data=path), Data(columns="anchor=question,positive=answer"), many("pairs"))
    assert isinstance(dev, ScoredPairs)


@pytest.mark.parametrize("columns", ["", "anchor=question,positive=answer"])
def test_dev_columns_of_other_names_are_to_be_renamed(tmp_path: Path, columns: str) -> None:
    """--columns that name them would not name those of the training rows."""
    path = write(tmp_path, "dev.csv", "Answer A,Answer B,Value", "a,b,1", "c,d,2")
    with pytest.raises(DataError) as caught:
        load_dev(Dev(data=path), Data(columns=columns), many("pairs"))
    hint = caught.value.hint
    assert "columns sentence" in hint and "sentence2" in hint and "--columns anchor" not in hint, hint
    renamed = write(tmp_path, "renamed.csv", "sentence1,sentence2,score", "a,b,1", "c,d,2")
    assert load_dev(Dev(data=renamed), Data(columns=columns), many("pairs"))[1]


def test_the_columns_of_a_corpus_are_named_in_it(tmp_path: Path) -> None:
    pairs = write(tmp_path, "dev.csv", "anchor,positive", "a,b", "c,d")
    corpus = write(tmp_path, "corpus.csv", "key,body", "1,a dog runs")
    with pytest.raises(DataError, match="'key', 'body' make neither") as caught:
        load_dev(Dev(data=pairs, corpus=corpus), Data(), many("pairs"))
    assert caught.value.key == "dev.corpus" and caught.value.hint.endswith("do without: --set dev.corpus=")


def test_the_dev_pairs_of_a_run_are_read_as_its_training_read_them(tmp_path: Path) -> None:
    path = write(tmp_path, "dev.tsv", "sentence1\tsentence2\tscore", "a\tb\t1", "\tc\t2", "d\te\t3")
    dev, data = Dev(data=path), Data(blank="drop")
    assert named_pairs(dev, data) == load_dev(dev, data, many("triplets"))[1]


def test_what_is_measured_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relevance, "QUERIES", 10)
    monkeypatch.setattr(relevance, "DOCUMENTS", 50)
    others = Texts.of([f"other {n}" for n in range(1000)])
    dev = from_rows(many("pairs"), others, "ndcg@10")
    assert len(dev) == 10 and len(relevant(dev)) == 30 and len(dev.documents) == 50
    assert dev.documents == from_rows(many("pairs"), others, "ndcg@10").documents


def test_scored_pairs_are_ranked_where_their_scores_are_grades(tmp_path: Path) -> None:
    header = "sentence1\tsentence2\tscore"
    path = write(tmp_path, "dev.tsv", header, "a\tb\t2", "a\tb\t1", "a\tx\t0", "c\td\t1", "no\tx\t0")
    _, dev = ranked(path, many("pairs"), "map")
    left_out = ("1 of 5 grades are of pairs with a higher one", "1 of 3 anchors have no relevant text")
    assert dev.notes[:2] == tuple(f"{what}, and are left out" for what in left_out)
    assert dev.queries == ["a", "c"] and "x" in dev.documents
    assert [(dev.documents[n], grade) for _, n, grade in dev.judged.tolist()] == [("b", 2), ("d", 1)]
    with pytest.raises(UsageError, match="holds scored pairs"):
        ranked(path, many("pairs"), "accuracy")
    with pytest.raises(DataError, match="no grades of relevance") as caught:
        ranked(write(tmp_path, "dev.tsv", header, "a\tb\t0.5", "c\td\t2"), many("pairs"), "map")
    assert "--metric spearman" in caught.value.hint
