"""The list of objectives: what is built in, what other packages add, and what it costs to look at it."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Annotated, Any, cast
from unittest.mock import Mock

import click
import msgspec
import pytest
from msgspec import Meta

from contrastcli.cli import cli
from contrastcli.errors import UsageError
from contrastcli.parsing.command import SettingsCommand
from contrastcli.settings import catalogue, sections
from contrastcli.settings.objective import Margin, ObjectiveSettings, SimilarityName, Spec
from support.packages import bring_objective
from support.settings import config


class Decoupled(ObjectiveSettings, frozen=True, kw_only=True):
    """Settings of an objective of another package: a similarity, and nothing that shifts it."""

    similarity: SimilarityName = "cosine"
    sharpness: Annotated[float, Meta(gt=0, description="how steep it is")] = 3.0


OUTSIDE = Spec("decoupled", Decoupled, ("pairs",), "elsewhere.losses:decoupled", "Someone 2030, Eq. 1")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Another package that brings an objective: what loads it."""
    load = Mock(return_value=OUTSIDE)
    bring_objective(monkeypatch, "decoupled", load)
    return load


@pytest.mark.usefixtures("outside")
def test_a_similarity_needs_no_margin() -> None:
    resolved = config(objective__name="decoupled", objective__similarity="rbf")
    assert (resolved.objective.bounds(), resolved.objective.inactive(), resolved.notes) == ({}, {}, ())


def test_other_packages_are_not_loaded_for_an_objective_of_ours(outside: Mock) -> None:
    assert catalogue.find_objective("simace").name == "simace"
    config(objective__name="simcse", objective__tau=0.1)
    assert not outside.called


@pytest.mark.usefixtures("outside")
def test_an_unknown_objective_is_looked_for_everywhere_and_names_the_nearest() -> None:
    with pytest.raises(UsageError) as raised:
        catalogue.find_objective("decuopled")
    assert raised.value.hint == "did you mean 'decoupled'?"


def _own(kind: object, *default: object, name: str = "sharpness", **methods: object) -> object:
    """Settings with one of that type, and methods."""
    bases, fields = (ObjectiveSettings,), cast(Any, [(name, kind, *default)])
    return msgspec.defstruct("Own", fields, bases=bases, namespace=methods, frozen=True, kw_only=True)


def _exit() -> Spec:
    raise SystemExit(0)


def _with(**changes: Any) -> Callable[[], Spec]:
    return lambda: replace(OUTSIDE, **changes)


BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "exits": (_exit, "cannot be loaded: exit 0"),
    "a key error": (lambda: vars(OUTSIDE)["x"], "there is no 'x'"),
    "no Spec": (lambda: 5, "it is not a Spec"),
    "a name of ours": (_with(name="simcse"), "an objective cannot be called 'simcse'"),
    "a name of two words": (_with(name="My Loss"), "an objective cannot be called 'My Loss'"),
    "needs of no form": (_with(needs=("pears",)), "its needs are pears; known: sentences, pairs, triplets, "),
    "classes, which are read as pairs": (_with(needs=("classes",)), "its needs are classes; known: "),
    "no needs": (_with(needs=()), "its needs are none; known: "),
    "settings of another kind": (_with(settings=dict), "its settings are no ObjectiveSettings"),
    "a setting that is a list": (_with(settings=_own(tuple[int, ...], ())), "the setting .sharpness. is no text"),
    "a setting without a default": (_with(settings=_own(int)), "'sharpness'"),
    "a setting called as the objective's key": (_with(settings=_own(int, 1, name="name")), "cannot be called 'name'"),
    "a setting called as an argument": (_with(settings=_own(int, 1, name="rows")), "cannot be called 'rows'"),
    "a setting whose option has three dashes": (_with(settings=_own(int, 1, name="_own")), "cannot be called '_own'"),
    "a loss that is no name": (_with(loss="loss"), "Expected `str`"),
    "a default beyond its bounds": (_with(settings=_own(Annotated[float, Meta(gt=0)], -1.0)), "`float` > 0.0"),
    "bounds that fail": (_with(settings=_own(int, 1, bounds=lambda self: 1 / 0)), "by zero"),
    "no effect of what is no setting": (
        _with(settings=_own(int, 1, inactive=lambda self: {"nope": "why"})),
        "it has no setting 'nope'",
    ),
    "one score where two are": (_with(measured=(1.0,)), "of length 2"),
    "negatives that fail": (_with(negatives=lambda rows, hard: rows // 0), "by zero"),
}


@pytest.mark.parametrize(("load", "what"), BROKEN.values(), ids=BROKEN)
def test_an_entry_point_that_is_no_objective_is_refused(
    monkeypatch: pytest.MonkeyPatch, load: Callable[[], object], what: str
) -> None:
    bring_objective(monkeypatch, "decoupled", load)
    with pytest.raises(UsageError, match=what):
        catalogue.find_objective("decoupled")


def test_of_two_packages_with_one_name_the_second_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    bring_objective(monkeypatch, "decoupled", lambda: OUTSIDE)
    [entry] = importlib.metadata.entry_points(group=catalogue.ENTRY_POINTS)
    other = SimpleNamespace(name="decoupled", value="an:OTHER", load=_with(paper="Another"), dist=None)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry, other])
    found, broken = catalogue.outside_objectives()
    assert [spec.paper for spec in found] == ["Another"], "the first by name, wherever they are installed"
    refused = "(decoupled:SPEC) cannot be loaded: another package has a 'decoupled' too"
    assert refused in str(broken["decoupled"])


def test_objectives_have_a_paper_and_a_description() -> None:
    assert [spec.name for spec in catalogue.built_in() if not spec.paper or len(spec.about) <= 20] == []


def test_an_own_margin_is_the_default_with_the_own_similarity_alone() -> None:
    class Own(ObjectiveSettings, frozen=True, kw_only=True):
        similarity: SimilarityName = "angle"
        margin: Margin = 5.0

    assert Own.defaults({})["margin"] == Own.defaults({"similarity": "angle"})["margin"] == 5.0
    assert [Own.defaults({"similarity": name})["margin"] for name in ("arc", "cosine")] == [10.0, 0.0]


def test_an_own_setting_that_is_called_as_an_option_is_set_by_its_key() -> None:
    class Own(ObjectiveSettings, frozen=True, kw_only=True):
        lr: float = 1.0

        resume: str = ""

    settings = sections.settings_of(replace(OUTSIDE, settings=Own))
    assert settings["objective.lr"].words("2") == ["--set", "objective.lr=2"]
    assert settings["train.lr"].words("2") == ["--lr", "2"]
    assert settings["objective.resume"].words("x") == ["--set", "objective.resume=x"]
    commands = [one for one in cli.commands.values() if isinstance(one, SettingsCommand)]
    options = {flag for command in commands for one in command.get_params(click.Context(command)) for flag in one.opts}
    flags = {one.flag for one in sections.all_settings().values()}
    assert {one for one in options if one.startswith("--")} - flags == sections.COMMAND_OPTIONS


@pytest.mark.parametrize(
    ("name", "rows", "hard", "negatives"),
    [
        ("simcse", 64, 0, 63),  # N - 1
        ("simcse", 512, 512, 1023),  # and every hard negative of the batch
        ("pairsupcon", 1024, 0, 2046),  # 2M - 2
        ("softmax", 16, 0, 0),
        ("augment", 64, 0, 0),
        ("dcl", 64, 3 * 64, 255),
        ("mpt", 64, 0, 63),  # of which one counts
    ],
)
def test_negatives_per_anchor_are_those_of_the_formulas(name: str, rows: int, hard: int, negatives: int) -> None:
    assert catalogue.find_objective(name).negatives(rows, hard) == negatives
