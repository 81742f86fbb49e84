"""Significance against textbook formulas, exact answers and brute force."""

import math
import random
import statistics
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.stats import spearmanr, t

from contrastcli.evaluation import significance
from contrastcli.evaluation.significance import RESAMPLES, bootstrap, holm, welch
from support.tiny import known

SIMCSE = [75.1, 76.3, 76.9, 75.4, 76.2]
SIMACE = [77.2, 78.1, 76.9, 77.6, 77.5]


def test_welchs_test_is_of_the_second_less_the_first() -> None:
    """By hand: t = Δ / √(s₁²/5 + s₂²/5), with the degrees of freedom of Welch and Satterthwaite."""
    variances = [statistics.variance(values) / 5 for values in (SIMCSE, SIMACE)]
    error = math.sqrt(sum(variances))
    df = sum(variances) ** 2 / sum(variance**2 / 4 for variance in variances)
    result = welch(SIMCSE, SIMACE)
    assert result.difference == pytest.approx(1.48) and (result.t, result.df) == pytest.approx((1.48 / error, df))
    wide = t.ppf(0.975, df) * error
    assert (result.low, result.high) == pytest.approx((1.48 - wide, 1.48 + wide))
    assert result.p == pytest.approx(2 * t.sf(1.48 / error, df))


def scored(pairs: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    gold = draw.integers(0, 6, pairs).astype(float)  # many ties, as in STS
    return gold + noise * draw.normal(size=pairs), gold


def test_the_correlations_and_their_interval_are_those_of_a_loop() -> None:
    first, gold = scored(60, 1.0, 1)
    second = first + np.random.default_rng(2).normal(size=60)
    result = bootstrap(first, second, gold)
    correlations = [100 * spearmanr(cosines, gold).statistic for cosines in (first, second)]
    assert result.scores == pytest.approx(correlations, abs=1e-10)
    draw, differences = random.Random(3), []
    for _ in range(RESAMPLES):  # other samples than the function's: the interval agrees as far as chance lets it
        rows = draw.choices(range(60), k=60)
        differences.append(100 * (spearmanr(second[rows], gold[rows])[0] - spearmanr(first[rows], gold[rows])[0]))
    low, high = np.quantile(differences, [0.025, 0.975])
    width = high - low
    found_low, difference, found_high = known((result.low, result.difference, result.high))
    assert abs(found_low - low) < 0.15 * width and abs(found_high - high) < 0.15 * width
    assert found_low < difference < found_high


def test_the_pairs_of_both_models_are_drawn_together() -> None:
    """Independent draws would spread the difference of a model and itself."""
    first, gold = scored(80, 2.0, 4)
    same = bootstrap(first, 3 * first + 1, gold)
    assert (same.difference, same.low, same.high, same.p) == (0.0, 0.0, 0.0, 1.0)


def test_a_clear_winner_has_the_smallest_p_there_is() -> None:
    first, gold = scored(300, 0.2, 5)
    result = bootstrap(first, np.random.default_rng(6).normal(size=300), gold)
    assert known((result.high,))[0] < -50 and result.p == pytest.approx(2 / (RESAMPLES + 1))
    assert bootstrap(first, first[::-1].copy(), gold) == bootstrap(first, first[::-1].copy(), gold)  # a fixed seed


def test_cosines_that_do_not_vary_leave_nothing_to_compare() -> None:
    result = bootstrap(np.ones(9), np.arange(9.0), np.arange(9.0))
    assert result.scores[0] is None and result.scores[1] == pytest.approx(100.0)
    assert (result.p, result.low, result.difference) == (None, None, None)


def test_holms_correction_is_that_of_his_example() -> None:
    """Of four tests the sorted p are multiplied by 4, 3, 2 and 1, and none is lower than one before it."""
    assert holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.03, None, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([None]) == [None]


def test_the_mean_over_queries_and_its_interval_are_those_of_a_loop() -> None:
    draw = np.random.default_rng(0)
    first, second = draw.random(200), draw.random(200)
    result = bootstrap(first, second)
    assert result.scores == pytest.approx((100 * first.mean(), 100 * second.mean()))
    error = 100 * (first - second).std() / 200**0.5
    low, high = known((result.low, result.high))
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert bootstrap(first, first).p == 1.0


def test_of_several_models_one_is_better_where_the_corrected_p_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"a": np.zeros(100), "b": np.repeat([1.0, -1.0], [61, 39]), "c": np.zeros(100), "d": np.ones(100)}
    monkeypatch.setattr(significance, "load_subject", lambda name, *_: Mock(vectors=lambda: name))
    monkeypatch.setattr(significance, "judge", lambda name, data: values[name])

    def judged(names: str) -> dict[str, str]:
        data = Mock(metric="map", source="set")
        tests = significance.compare_models([(name, name) for name in names], data)
        return {"".join(test.runs): test.judgement for test in tests}

    assert judged("ab") == {"ab": "better"}
    expected = dict.fromkeys(["ab", "ac", "bc"], "not different")
    assert judged("abcd") == expected | dict.fromkeys(["ad", "bd", "cd"], "better")
