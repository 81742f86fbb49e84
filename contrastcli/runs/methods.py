"""Runs that differ only in their seed are one method: mean and standard deviation of their scores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contrastcli.runs.results import Method, SeedRun, Spread
from contrastcli.settings.sections import SEED, all_settings
from contrastcli.settings.setting import Setting, Value


@dataclass(frozen=True)
class Member:
    """A run of a method; `numbers` has its dev score and its scores by name, × 100."""

    name: str
    settings: Mapping[str, Value]
    state: str
    numbers: Mapping[str, float]

    @property
    def seed(self) -> Value:
        return self.settings[SEED]


def group(members: Sequence[Member]) -> tuple[Method, ...]:
    """Put runs of one method together, in the order in which each method comes first."""
    known = all_settings()
    by_method: dict[tuple[tuple[str, Value], ...], list[Member]] = {}
    for member in members:
        by_method.setdefault(_method_settings(member.settings, known), []).append(member)
    methods = [dict(settings) for settings in by_method]
    keys = dict.fromkeys(key for method in methods for key in method)
    differing = [key for key in keys if len({method.get(key) for method in methods}) > 1]
    return tuple(method({key: same[0].settings.get(key) for key in differing}, same) for same in by_method.values())


def _method_settings(settings: Mapping[str, Value], known: Mapping[str, Setting]) -> tuple[tuple[str, Value], ...]:
    """The settings that make a method: all but those of execution, two paths to one file being equal."""
    kept = {key: value for key, value in settings.items() if known[key].role != "execution"}
    paths = {
        key: os.path.realpath(value)
        for key, value in kept.items()
        if known[key].role == "data" and isinstance(value, str) and os.path.exists(value)
    }
    return tuple((kept | paths).items())


def method(settings: Mapping[str, Value | None], members: Sequence[Member]) -> Method:
    """The method of these runs; of those that finished with one seed, the first counts: it is no new draw."""
    by_seed: dict[Value, Member] = {}
    for member in members:
        if member.state == "finished":
            by_seed.setdefault(member.seed, member)
    counted = list(by_seed.values())
    names = [name for name in (counted[0].numbers if counted else ()) if all(name in m.numbers for m in counted)]
    scores = {name: Spread.of([member.numbers[name] for member in counted]) for name in names}
    runs = tuple(SeedRun(member.name, member.seed, member.state) for member in members)
    return Method(dict(settings), runs, len(counted), scores)
