"""The papers' pictures as data: each value was reported by a run or measured of a model."""

from collections.abc import Sequence
from typing import Any

import pytest

from contrastcli.runs.event import Event
from contrastcli.runs.events import training_seconds
from contrastcli.runs.measured import Angles, Evaluated, Step
from contrastcli.show import chart
from contrastcli.show.pictures import Picture, Series, labels, of_geometry, of_models, of_runs
from support.signs import started


def bins(**counts: int) -> list[int]:
    """A histogram with so many pairs in the bins that begin at a degree, as d40=3."""
    return [counts.get(f"d{5 * n}", 0) for n in range(36)]


def step(number: int, rate: float | None) -> Step:
    return Step(step=number, loss=1.0, lr=1e-5, epoch=0.0, sentences_per_s=rate)


def angles(number: int, positive: float | None, negative: float | None, **counts: int) -> Angles:
    histogram = bins(**counts)
    return Angles(
        step=number, positive=positive, negative=negative, hardest=None, satisfied=None,
        positive_histogram=histogram, negative_histogram=[2 * count for count in histogram],
    )  # fmt: skip


def evaluated(number: int, alignment: float | None, uniformity: float | None) -> Evaluated:
    return Evaluated(step=number, score=0.5, alignment=alignment, uniformity=uniformity, pairs=9)


def drawn(pictures: list[Picture], name: str) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
    [picture] = [picture for picture in pictures if picture.name == name]
    return {series.name: (series.x, series.y) for series in picture.series}


RUNS: dict[str, list[Event]] = {
    "one": [started(), evaluated(0, 0.5, -1.0), angles(1, 30, 80), angles(10, 40, None), evaluated(10, 0.25, -2.0)],
    "two": [started(), angles(1, None, 70), evaluated(5, None, None)],
}


def test_runs_are_drawn_where_their_numbers_are_known_and_pictures_that_none_fills_are_left_out() -> None:
    pictures = of_runs(RUNS)
    assert {picture.name for picture in pictures} == {"angles-positive", "angles-negative", "plane"}
    assert drawn(pictures, "angles-positive") == {"one": ((1, 10), (30, 40))}
    assert drawn(pictures, "angles-negative") == {"one": ((1,), (80,)), "two": ((1,), (70,))}
    assert drawn(pictures, "plane") == {"one": ((-1.0, -2.0), (0.5, 0.25))}  # from uniformity to alignment
    assert of_runs({"new": [started()]}) == []


def test_a_histogram_is_the_share_of_all_pairs_of_the_last_ten_batches() -> None:
    early = [angles(n, 1, 1, d0=1000) for n in range(5)]
    late = [angles(5 + n, 1, 1, d40=1, d45=2 if n else 0) for n in range(10)]
    pictures = of_runs({"one": [*early, *late]})
    for which in ("positive", "negative"):
        edges, shares = drawn(pictures, f"histogram-{which}")["one"]
        assert edges == tuple(range(0, 181, 5))
        assert shares[8:10] == pytest.approx((100 * 10 / 28, 100 * 18 / 28)) and sum(shares) == pytest.approx(100)


def test_training_time_leaves_out_evaluation_and_what_came_before_a_resume() -> None:
    whole: list[Event] = [started(), step(1, 64.0), evaluated(1, 0.1, -1), step(11, 128.0)]
    assert training_seconds(reversed(whole)) == pytest.approx(1 * 2 + 10 * 1)
    resume = started(step=10, resumed_from=10)
    resumed: list[Event] = [started(), step(10, 128.0), resume, step(11, 64.0), step(13, None)]
    assert training_seconds(reversed(resumed)) == pytest.approx(10 + 2)


@pytest.mark.parametrize(
    ("rate", "unit", "shown"), [(128.0, "seconds", 100), (12.8, "minutes", 1000 / 60), (0.64, "hours", 20000 / 3600)]
)
def test_training_time_is_shown_in_the_unit_that_suits_it(rate: float, unit: str, shown: float) -> None:
    [picture] = of_runs({"one": [started(), step(100, rate)]})
    assert (picture.name, picture.x_label) == ("time", unit)
    assert picture.series[0].y == pytest.approx((shown,))


def model(shift: float, **more: Any) -> dict[str, Any]:
    """What the geometry suite writes of a model."""
    return {
        "STS-B": {
            "alignment": 0.2 + shift,
            "uniformity": -2 - shift,
            "positive_histogram": bins(d20=3, d25=1),
            "negative_histogram": bins(d80=5),
            "pca": [[shift, 1.0], [2.0, -shift]],
        },
        "partial": False,
        "missing": {},
        "protocol": "…",
        **more,
    }


def test_models_are_overlaid_and_coloured_by_their_sts_average() -> None:
    pictures = of_models({"a": {"geometry": model(0), "sts": {"average": 76.25}}, "b": {"geometry": model(1)}})
    assert [picture.name for picture in pictures] == [
        "pca-sts-b", "plane-sts-b", "histogram-positive-sts-b", "histogram-negative-sts-b",
    ]  # fmt: skip
    assert drawn(pictures, "pca-sts-b") == {"a": ((0, 2), (1, 0)), "b": ((1, 2), (1, -1))}
    assert drawn(pictures, "plane-sts-b") == {"a": ((-2,), (0.2,)), "b": ((-3,), (1.2,))}
    assert [series.value for series in pictures[1].series] == [76.25, None] and pictures[1].colours == "STS average"
    assert drawn(pictures, "histogram-positive-sts-b")["a"][1][4:6] == (75, 25)
    assert pictures[2].occupied() == (20, 30), "by any of them"
    assert of_models({"a": {"geometry": model(0)}})[1].colours == ""


def test_models_of_other_pairs_are_not_in_one_picture() -> None:
    starter = {"starter": model(1)["STS-B"]}
    pictures = of_models({"a": {"geometry": model(0)}, "b": {"geometry": starter}, "c": {"sts": {"average": 1.0}}})
    assert list(drawn(pictures, "plane-sts-b")) == ["a"] and list(drawn(pictures, "plane-starter")) == ["b"]


def test_tsne_is_a_picture_a_model_with_a_colour_a_class() -> None:
    task = {"texts": 4, "tsne": [[1, 2], [3, 4], [5, 6], [7, 8]], "labels": [10, 2, 10, 0]}
    pictures = of_models({"runs/my run": {"geometry": {"StackOverflow": task}}})
    classes = drawn(pictures, "tsne-stackoverflow-runs-my-run")
    assert [*classes.items()] == [("0", ((7,), (8,))), ("2", ((3,), (4,))), ("10", ((1, 5), (2, 6)))]


def test_the_geometry_of_one_model_is_its_angles_over_each_other_and_its_sentences() -> None:
    task = {
        "positive_histogram": bins(d30=3, d35=1),
        "negative_histogram": bins(d80=5, d85=5, d90=10),
        "pca": [[0.5, 1.0], [-0.5, 0.0]],
        "explained": [0.25, 0.125],
    }
    angles_of_pairs, plane = of_geometry({"STS-B": task, "average": None})
    positive, negative = angles_of_pairs.series
    assert list(positive.y[6:8]) == [75.0, 25.0] and sum(negative.y) == pytest.approx(100.0)
    assert angles_of_pairs.title == "Angles of STS-B, % of pairs"
    assert plane.title == "Sentences of STS-B in a plane (PCA, 38 % of the variance)"
    assert [(one.x, one.y) for one in plane.series] == [((0.5, -0.5), (1.0, 0.0))]
    assert of_geometry({}) == []


def test_labels_of_equal_names_differ() -> None:
    assert len(set(labels(["a/x", "b/x", "c/x-1"]).values())) == 3
    assert labels(["a/x", "b/y"]) == {"a/x": "x", "b/y": "y"}


@pytest.mark.parametrize(("scores", "lengths"), [((0, 0), (0, 0)), ((-30, -5), (0, 0)), ((80, 40), (8, 4))])
def test_bars_fit_for_any_scores(scores: tuple[float, float], lengths: tuple[int, int]) -> None:
    series = tuple(Series(name, (0.0,), (float(score),)) for name, score in zip("ab", scores, strict=True))
    lines = chart.text(Picture("bars", "scores", "bars", "points", "", series), 60, 10).splitlines()
    bars = [next(line for line in lines if line.startswith(f"{name} ")).count("█") for name in "ab"]
    assert tuple(round(8 * bar / max(*bars, 1)) for bar in bars) == lengths
    assert max(map(len, lines)) <= 60 and lines[1].endswith(f" {scores[0]} points")
