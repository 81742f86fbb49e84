"""Runs that differ only in their seed are one method: mean and standard deviation of their scores."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from contrastcli.runs.results import Method, ScoreName, SeedRun, Spread
from contrastcli.runs.status import Status
from contrastcli.settings.sections import OBJECTIVE, SEED, all_settings
from contrastcli.settings.setting import Value

Identity = tuple[tuple[str, Value], ...]
"""What makes a method: its settings by key, apart from those of execution."""


@dataclass(frozen=True)
class Member:
    """A run of a method; `numbers` are its dev score and its other scores by name, × 100.

    A model that is no run has no settings, and is a method of its own.
    """

    name: str
    settings: Mapping[str, Value]
    state: str
    numbers: Mapping[ScoreName, float]
    rows: Mapping[str, str] = field(default_factory=dict)
    """The fingerprints of the rows that it read, as far as they are known, by the setting that names them."""

    @property
    def seed(self) -> Value:
        return self.settings.get(SEED, 0)

    @cached_property
    def identity(self) -> Identity:
        return identity(self.settings) if self.settings else (("model.backbone", self.name),)


def dev_score(status: Status) -> dict[ScoreName, float]:
    """The best dev score of a run × 100, named by its metric unless that is Spearman: other metrics do not mix."""
    name = ScoreName("dev", "" if status.metric == "spearman" else status.title)
    return {} if status.best is None else {name: 100 * status.best}


def identity(settings: Mapping[str, Value]) -> Identity:
    """The method of a run; equal for paths to the same file."""
    roles = {key: setting.role for key, setting in all_settings().items()}
    method = {key: value for key, value in settings.items() if roles.get(key) != "execution"}
    for key, value in method.items():
        if roles.get(key) == "data" and isinstance(value, str):
            # A name may hold a comma, and several files have theirs between commas, with weights.
            method[key] = re.sub("[^,=]+", lambda match: _place(match[0]), _place(value))
    return tuple(method.items())


def _place(name: str) -> str:
    path = os.path.expanduser(name)
    return os.path.realpath(path) if os.path.exists(path) else name


def told_apart(members: Sequence[Member]) -> list[Member]:
    """The same runs; where some read other rows by the same name, read alike, the names of their data say which."""
    told = list(members)
    for key in ("data.train", "dev.data"):
        alike: dict[Identity, list[int]] = {}
        for n, one in enumerate(members):
            alike.setdefault(_read(one, key), []).append(n)
        for numbers in alike.values():
            rows = {n: own for n in numbers if (own := members[n].rows.get(key))}
            name = members[numbers[0]].settings.get(key, "")  # the first of several paths
            for n, own in rows.items() if len(set(rows.values())) > 1 else ():
                told[n] = replace(told[n], settings={**told[n].settings, key: f"{name} ({own[:8]})"})
    return told


def _read(member: Member, key: str) -> Identity:
    """How a run read these data; what it held out itself is known by the rows that it held it out of."""
    if str(member.settings.get(key, "split:")).startswith("split:"):
        return (("", member.name),)
    decides = (OBJECTIVE.key, "data.", *(("dev.data", "dev.metric", "dev.corpus") if key == "dev.data" else ()))
    return tuple((name, value) for name, value in member.identity if name.startswith(decides))


def group(members: Sequence[Member]) -> tuple[Method, ...]:
    """The methods of these runs, in the order of their first runs.

    Runs of one method differ only in settings of execution, or in paths to the same file, which had the same rows.
    """
    members = told_apart(members)
    by_method: dict[Identity, list[Member]] = {}
    for member in members:
        by_method.setdefault(member.identity, []).append(member)
    keys = differing([dict(settings) for settings, same in by_method.items() if same[0].settings])
    return tuple(method({key: same[0].settings.get(key) for key in keys}, same) for same in by_method.values())


def differing(settings: Sequence[Mapping[str, Value]]) -> list[str]:
    """The settings that are not the same in all."""
    keys = dict.fromkeys(chain.from_iterable(settings))
    return [key for key in keys if len({some.get(key) for some in settings}) > 1]


def method(settings: Mapping[str, Value | None], members: Sequence[Member]) -> Method:
    """The method of these runs; of finished runs with the same seed, only the first counts."""
    by_seed: dict[Value, Member] = {}
    for member in members:
        if member.state == "finished":
            by_seed.setdefault(member.seed, member)
    counted = list(by_seed.values())
    names = [name for name in (counted[0].numbers if counted else ()) if all(name in m.numbers for m in counted)]
    scores = {name: Spread.of([member.numbers[name] for member in counted]) for name in names}
    runs = tuple(SeedRun(member.name, member.seed, member.state) for member in members)
    return Method(dict(settings), runs, len(counted), scores)
