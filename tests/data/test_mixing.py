"""Several sets as one: names and weights, forms made alike, and what an epoch draws of each."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from contrastcli.data.batching import BatchOrder, Indices, Mix
from contrastcli.data.sources import load_examples, read_sets
from contrastcli.data.texts import Texts
from contrastcli.errors import DataError, UsageError
from contrastcli.settings.objective import Form
from contrastcli.settings.sections import Data
from contrastcli.training.plan import make_plan
from support.command import Contrast, refused, train
from support.settings import config
from support.tiny import Tiny

ANY: tuple[Form, ...] = ("sentences", "triplets", "pairs")
SIZES, WEIGHTS = (10, 40, 3), (1.0, 0.5, 4.0)


def joined(tiny: Tiny, *forms: str, needs: tuple[Form, ...] = ANY) -> tuple[str, dict[str, Texts], tuple[int, ...]]:
    examples = load_examples(Data(train=",".join(str(tiny.data[form]) for form in forms)), needs, ())
    return examples.form, examples.views, examples.sets


def test_names_have_weights(cwd: Path) -> None:
    assert read_sets("a.csv=2,b.jsonl, hf:o/n?config=5=0.5") == [("a.csv", 2), ("b.jsonl", 1), ("hf:o/n?config=5", 0.5)]
    assert read_sets("a,hf:o/n?config=x&split=3") == [("a", 1), ("hf:o/n?config=x&split=3", 1)]
    Path("a,b=2.csv").touch()
    assert read_sets("a,b=2.csv") == [("a,b=2.csv", 1)]
    for malformed in ("a.csv,", ",", "a=0,b", "a=1.2.3,b", "a,=3"):
        with pytest.raises(UsageError, match=r"data\.train is "):
            read_sets(malformed)


def test_sets_of_several_forms_become_one(tiny: Tiny) -> None:
    form, views, sets = joined(tiny, "sentences", "triplets", "negatives")
    assert (form, sets) == ("triplets", (160, 160, 160))
    assert [*views] == ["anchor", "positive", "negative", "negative_2", "negative_3"]
    sentence, triplet, several = ({view: texts[row] for view, texts in views.items()} for row in (5, 165, 323))
    assert sentence["positive"] == sentence["anchor"] and not sentence["negative"]
    assert triplet["negative"] and not triplet["negative_2"]
    assert several["negative"] and several["negative_3"]
    form, views, _ = joined(tiny, "pairs", "sentences")
    assert (form, [*views]) == ("pairs", ["anchor", "positive"]) and views["positive"][160] == views["anchor"][160]


def test_columns_are_for_the_sets_that_have_them(cwd: Path) -> None:
    data = Data(train="a.tsv,b.tsv", columns="anchor=Frage,positive=Antwort")
    Path("b.tsv").write_text("Frage\tAntwort\nka\tla\nma\tna\n")
    for first in ("anchor\tpositive\nba\tda\nfa\tga\n", "anchor\tpositive\tAntwort\nba\tda\t1\nfa\tga\t2\n"):
        Path("a.tsv").write_text(first)
        assert list(load_examples(data, ("pairs",), ()).views["positive"]) == ["da", "ga", "la", "na"]
    Path("b.tsv").write_text("question\tanswer\nka\tla\nma\tna\n")
    with pytest.raises(DataError, match="has no column 'Frage'"):
        load_examples(data, ("pairs",), ())


def test_a_set_in_another_form_is_converted_or_refused(tiny: Tiny) -> None:
    form, views, sets = joined(tiny, "labelled", "triplets", needs=("labelled",))
    assert (form, sets, len(views["anchor"])) == ("labelled", (160, 320), 480)
    with pytest.raises(DataError, match=r"pairs.*in the columns anchor, positive"):
        joined(tiny, "labelled", "pairs", needs=("labelled",))


@pytest.mark.parametrize("temperature", [1, 2, 1000])
def test_an_epoch_draws_by_weight_and_temperature(temperature: float) -> None:
    """Recomputed from the formula: a share of all rows in proportion to weight · size^(1/T)."""
    shares = np.array(WEIGHTS) * np.array(SIZES) ** (1 / temperature)
    expected = 42 * shares / shares.sum()
    mix = Mix.of(SIZES, WEIGHTS, temperature, False)
    assert np.abs(np.array(mix.drawn) - expected).max() <= 0.5
    assert temperature > 1 or mix.drawn == (10, 20, 12)


@pytest.mark.parametrize("apart", [False, True])
def test_every_row_of_a_set_is_used_as_often_as_the_others(apart: bool) -> None:
    order = BatchOrder(53, 8, seed=5, mix=Mix.of(SIZES, WEIGHTS, 1, apart))
    batches = [batch for epoch in range(4) for batch in order.epoch(epoch)]
    assert len(batches) == 4 * len(order)
    used = Counter(int(row) for batch in batches for row in batch)
    times = [{used[row] for row in range(first, first + size)} for first, size in ((0, 10), (10, 40), (50, 3))]
    assert times == [{4}, {2}, {16}]
    assert all(len({np.searchsorted([10, 50], row, "right") for row in batch}) == 1 for batch in batches) == apart
    assert [b.tolist() for b in order.epoch(3)] == [b.tolist() for b in order.epoch(3)]
    assert [b.tolist() for b in order.epoch(3)] != [b.tolist() for b in order.epoch(2)]


def test_a_set_without_rows_has_no_batch() -> None:
    """All of them may have been left out as leaks."""
    order = BatchOrder(10, 4, 0, mix=Mix.of((0, 10), (1, 1), 1, True))
    assert sorted(map(len, order.epoch(0))) == [2, 4, 4] and len(order) == 3


def test_epochs_that_are_not_trained_are_not_laid_out(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out, lay_out = list[int](), BatchOrder.epoch

    def epoch(order: BatchOrder, number: int) -> list[Indices]:
        laid_out.append(number)
        return lay_out(order, number)

    monkeypatch.setattr(BatchOrder, "epoch", epoch)
    settings = {"objective.name": "supcon", "data.train": str(tiny.data["labelled"]), "dev.data": "none"}
    plan = make_plan(config(settings, train__epochs=100_000, train__max_steps=50))
    assert plan.steps == 50
    assert len(laid_out) < 50


def test_a_toml_list_is_a_list_of_sets(tiny: Tiny) -> None:
    names = [f"{tiny.data['pairs']}=2", str(tiny.data["triplets"])]
    plan = make_plan(config({"objective.name": "simcse", "data.train": names, "dev.data": "none"}))
    assert plan.config.data.train == ",".join(names)
    drawn = f"{tiny.data['pairs']} 320 of 160, {tiny.data['triplets']} 160 of 160"
    assert f"rows that an epoch draws: {drawn}" in plan.examples.notes
    assert len(plan.order) == -(-480 // 64)


def test_a_grouped_objective_joins_sets_as_they_are(contrast: Contrast) -> None:
    names = "tiny/grouped.jsonl,tiny/labelled.jsonl"
    usual = ("--objective", "supcon", "--dry-run", "--data")
    assert contrast(*train(*usual, names)).code == 0
    refused(contrast(*train(*usual, f"{names}=2")), 2, "'supcon' keeps the rows of an anchor", "leave out weights")


def test_scores_are_shares_of_the_range_of_their_own_set(tmp_path: Path) -> None:
    names = []
    for number, top in enumerate((1, 5, 100)):
        names.append(tmp_path / f"{number}.tsv")
        rows = [f"a{number}{n}\tb{number}{n}\t{share * top}" for n, share in enumerate((0, 0.5, 1))]
        names[-1].write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    examples = load_examples(Data(train=",".join(map(str, names))), ("scored",), ())
    assert examples.scores == [0, 0.5, 1] * 3


def test_sets_of_scored_triplets_keep_their_scores_as_they_are(tiny: Tiny, tmp_path: Path) -> None:
    file = tiny.data["scored-triplets"]
    both = load_examples(Data(train=f"{file},{file}"), ("scored-triplets",), ())
    one = load_examples(Data(train=str(file)), ("scored-triplets",), ())
    assert one.candidate_scores is not None and both.candidate_scores is not None
    assert np.array_equal(both.candidate_scores, np.tile(one.candidate_scores, (2, 1)))
    (tmp_path / "one.csv").write_text("anchor,positive,negative,score,negative_score\na,b,c,1,0\nd,e,f,1,0\n")
    with pytest.raises(DataError, match="as many negatives in every set"):
        load_examples(Data(train=f"{file},{tmp_path / 'one.csv'}"), ("scored-triplets",), ())
