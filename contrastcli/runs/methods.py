"""Runs that differ only in their seed are one method: mean and standard deviation of their results."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contrastcli.settings.sections import SEED, all_settings
from contrastcli.settings.setting import Setting, Value


@dataclass(frozen=True)
class Spread:
    """A number over seeds; `deviation` is the sample standard deviation (n − 1), None for a single value."""

    values: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / self.n

    @property
    def deviation(self) -> float | None:
        if self.n < 2:
            return None
        return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values) / (self.n - 1))


@dataclass(frozen=True)
class Member:
    """A run of a group; `numbers` has its dev score and its scores by name, × 100."""

    name: str
    settings: Mapping[str, Value]
    state: str
    numbers: Mapping[str, float]

    @property
    def seed(self) -> Value:
        return self.settings[SEED]


@dataclass(frozen=True)
class Group:
    """Runs of one method; `settings` are those that differ between groups, None where an objective has no such.

    `spreads` is over the runs that finished, each seed once, and has the numbers that all of these have.
    """

    settings: Mapping[str, Value | None]
    members: tuple[Member, ...]
    spreads: Mapping[str, Spread]

    @property
    def counted(self) -> tuple[Member, ...]:
        """The runs that the spreads are of."""
        return _counted(self.members)


def group(members: Sequence[Member]) -> tuple[Group, ...]:
    """Put runs of one method together, in the order in which each method comes first."""
    known = all_settings()
    by_method: dict[tuple[tuple[str, Value], ...], list[Member]] = {}
    for member in members:
        by_method.setdefault(_method(member.settings, known), []).append(member)
    methods = [dict(method) for method in by_method]
    keys = dict.fromkeys(key for method in methods for key in method)
    differing = [key for key in keys if len({method.get(key) for method in methods}) > 1]
    return tuple(
        Group({key: same[0].settings.get(key) for key in differing}, tuple(same), spreads(same))
        for same in by_method.values()
    )


def _method(settings: Mapping[str, Value], known: Mapping[str, Setting]) -> tuple[tuple[str, Value], ...]:
    """What makes a method: its settings but those of execution, two paths to one file being equal."""
    method = {key: value for key, value in settings.items() if known[key].role != "execution"}
    paths = {
        key: os.path.realpath(value)
        for key, value in method.items()
        if known[key].role == "data" and isinstance(value, str) and os.path.exists(value)
    }
    return tuple((method | paths).items())


def spreads(members: Sequence[Member]) -> dict[str, Spread]:
    """Each number that all finished runs have, over their seeds."""
    counted = _counted(members)
    names = [name for name in (counted[0].numbers if counted else ()) if all(name in m.numbers for m in counted)]
    return {name: Spread(tuple(member.numbers[name] for member in counted)) for name in names}


def _counted(members: Sequence[Member]) -> tuple[Member, ...]:
    """Finished runs, of equal seeds the first: a repeated seed is no new draw."""
    by_seed: dict[Value, Member] = {}
    for member in members:
        if member.state == "finished":
            by_seed.setdefault(member.seed, member)
    return tuple(by_seed.values())
