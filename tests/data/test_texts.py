"""Columns of texts are sequences as lists are, in memory and on disk."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from contrastcli.data import texts
from contrastcli.data.texts import Column, Texts, read_columns
from contrastcli.errors import RunError
from contrastcli.files import cache_dir
from contrastcli.settings.objective import Form
from contrastcli.training.plan import make_plan
from support.disks import FULL, failing_disk
from support.tiny import Tiny

WORDS = ["b", "", "a", "ä 😀", "b", "a" * 30, ""]
LIMITS = [1, 100, 1 << 24]


@pytest.fixture(params=LIMITS, autouse=True)
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes of an array in memory; the rest is on disk."""
    monkeypatch.setattr(texts, "IN_MEMORY", request.param)
    return int(request.param)


def test_a_column_is_a_sequence(limit: int) -> None:
    column = Texts.of(f" {word}\n" for word in WORDS)
    assert column == WORDS and [*column] == WORDS and len(column) == len(WORDS)
    assert (column[3], column[-2], column[1:4], column[::-2]) == (WORDS[3], WORDS[-2], WORDS[1:4], WORDS[::-2])
    assert column.take(np.array([2, 2, 0])) == ["a", "a", "b"]
    assert column.take(column.sizes > 0) == [word for word in WORDS if word]
    assert column.sizes.tolist() == [len(word.encode()) for word in WORDS]
    assert isinstance(column, Sequence) and column != WORDS[:-1]
    assert not limit or not list(cache_dir().glob("*")), "a temporary file has no name"


def test_other_values_come_back_as_they_were() -> None:
    cells = ["text", None, 5, 2.5, math.inf, ["a", None], True, {"key": [1]}, ""]
    column = Column.of(cells)
    assert [*column] == cells and [type(cell) for cell in column] == [type(cell) for cell in cells]
    assert column.is_text.tolist() == [type(cell) is str for cell in cells]


def test_distinct_cells_are_numbered_as_they_appear() -> None:
    draw = np.random.default_rng(3).integers(0, 300, 1000).tolist()
    cells = [str(number) for number in draw]
    different, numbers = Texts.of(cells).distinct()
    assert different == [*dict.fromkeys(cells)]
    assert [different[number] for number in numbers] == cells


def test_columns_of_several_tables_are_joined() -> None:
    first, second = (read_columns(["x", "y"], words) for words in (["a", "b", "c", "d"], ["e", "f"]))
    joined = Texts.join([second["y"], first["x"], second["y"], first["y"]])
    assert joined == ["f", "a", "c", "f", "b", "d"]
    assert joined.hashes.tolist() == Texts.of([*joined]).hashes.tolist()


@pytest.mark.parametrize("form", ["triplets", "labelled", "negatives"])
def test_rows_are_the_same_on_disk(tiny: Tiny, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny.config("pairsupcon", form, **{"dev.data": "split:10%", "dev.metric": "map"})
    plan = make_plan(config)
    monkeypatch.setattr(texts, "IN_MEMORY", 1 << 24)
    expected = make_plan(config)
    assert plan.examples.fingerprint == expected.examples.fingerprint
    assert plan.dev and expected.dev and plan.dev.fingerprint == expected.dev.fingerprint
    assert plan.corpus.texts == expected.corpus.texts
    for view, numbers in expected.corpus.views.items():
        assert plan.corpus.views[view].tolist() == numbers.tolist()


def test_a_full_disk_is_said(limit: int) -> None:
    if limit == LIMITS[0]:
        with failing_disk(cache_dir(), 1, FULL), pytest.raises(RunError, match="cannot write"):
            Texts.of(WORDS * 1000)
