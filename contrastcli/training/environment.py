"""The record of what a run was trained with, so that a number can be traced back."""

import os
import platform
import shlex
import socket
import subprocess
import sys
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import torch

from contrastcli.boundary import __version__
from contrastcli.data.sources import read_sets
from contrastcli.errors import DataError
from contrastcli.files import atomic_write, checksum_of, decoding, json_bytes, read_json, writing_to
from contrastcli.model.devices import choose_precision, device_name
from contrastcli.model.locate import PICKLED, resolve, revision
from contrastcli.runs.status import Environment
from contrastcli.settings import config as configs
from contrastcli.settings.catalogue import ENTRY_POINTS
from contrastcli.settings.config import Config
from contrastcli.settings.outside import package_of
from contrastcli.training.plan import Plan

_PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "transformers", "datasets", "scipy")
_TOLD = ("contrast", "torch", "device_name", "threads", "processes")
"""What a resume tells of where it is not as before."""
_WEIGHTS = ("*.safetensors", PICKLED, "[0-9]_*/*.safetensors", f"[0-9]_*/{PICKLED}")

_Model = dict[str, str | None]
"""The record of a model."""


def check_settings(path: Path, config: Config) -> None:
    """Raises DataError if a run, whose environment is recorded there, began with other settings than it may change."""
    began = Environment.read(path).settings
    if edited := [key for key, value in configs.fixed(config).items() if began.get(key, value) != value]:
        before = ", ".join(f"{key} = {began[key]}" for key in edited)
        raise not_as_begun(path, config, f"{path.with_name('config.toml')} was edited: the run began with {before}")


def check_rows(path: Path, plan: Plan) -> None:
    """Raises DataError if a run, whose environment is recorded there, began with other rows of any of its sets."""
    known = Environment.read(path).data
    evaluated = {"dev_fingerprint": plan.dev, "general_fingerprint": plan.general}
    # What is read comes first: other dev data leave other rows to train on.
    for key, rows in {"read_fingerprint": plan.read, **evaluated, "fingerprint": plan.examples}.items():
        if rows and known.get(key, rows.fingerprint) != rows.fingerprint:
            what = f"the rows of {rows.source} are not those that the run began with"
            raise not_as_begun(path, plan.config, what if known[key] else f"the run began without {rows.source}")
    if known.get("drawn", _drawn(plan)) != _drawn(plan):
        what = f"data.train is '{plan.config.data.train}', of which an epoch draws other rows than when the run began"
        raise not_as_begun(path, plan.config, what)


def _drawn(plan: Plan) -> list[int]:
    """The rows of each set that an epoch draws, where there are several."""
    return [*plan.order.mix.drawn] if plan.order.mix else []


def check_teachers(path: Path, plan: Plan) -> dict[str, list[_Model]]:
    """The models that teach a run, as it records them. Raises DataError where it began with others."""
    recorded, teachers = read_json(path, dict[str, Any]) or {}, {}
    for one in plan.auxiliaries:
        with decoding(path):
            began = msgspec.convert(recorded.get(one.name, []), list[_Model])
        teachers[one.name] = [_model(name) for name in one.models]
        for was, now in zip(began, teachers[one.name], strict=False):
            if _differ(was, now):
                what = f"{now['name']} has other weights than those with which the run began"
                raise not_as_begun(path, plan.config, what)
    return {name: models for name, models in teachers.items() if models}


def _differ(was: _Model, now: _Model) -> bool:
    """Whether a model has other weights than when a run began, as far as that is known."""
    return any(was.get(key) not in (None, now[key]) for key in ("revision", "checksum"))


def not_as_begun(path: Path, config: Config, what: str) -> DataError:
    """The error of a run that cannot go on as it began."""
    file = path.with_name("config.toml")
    changed = configs.changes(configs.resolve([configs.file_layer(file)]), config)
    again = shlex.join(["contrast", "train", "--config", str(file), *changed])
    return DataError(what, f"restore them, or start a new run: {again}")


def write_environment(path: Path, plan: Plan, device: torch.device, processes: int, *, is_new: bool) -> list[str]:
    """Write versions, device, revisions and fingerprints as JSON, and return a note if a resume has others.

    A run that is not new goes on from its own weights, and the record of those that it began from stays.

    Raises DataError as the checks do, and RunError.
    """
    check_rows(path, plan)
    teachers = check_teachers(path, plan)
    brings = package_of(ENTRY_POINTS, plan.config.spec.loss)
    record: dict[str, Any] = {
        "contrast": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in _PACKAGES} | brings,
        "platform": platform.platform(),
        "host": socket.gethostname(),
        "device": str(device),
        "device_name": device_name(device),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "processes": processes,
        "precision": choose_precision(plan.config.train.precision, device),
        "backbone": _model(plan.config.model.backbone),
        **teachers,
        "data": {
            "train": plan.examples.source,
            "rows": len(plan.examples),
            "fingerprint": plan.examples.fingerprint,
            "read_fingerprint": plan.read.fingerprint,
            "drawn": _drawn(plan),
            "files": [str(Path(os.path.expanduser(name)).resolve()) for name, _ in read_sets(plan.config.data.train)],
            "dev": plan.dev.source if plan.dev else None,
            "dev_pairs": len(plan.dev) if plan.dev else 0,
            "dev_fingerprint": plan.dev.fingerprint if plan.dev else None,
            "general_fingerprint": plan.general.fingerprint if plan.general else None,
        },
        "settings": configs.fixed(plan.config),
        "command": [plan.config.masked(word) for word in sys.argv],
    }
    before = read_json(path, dict[str, Any]) or {}
    was, now = ({**one.get("packages", {}), **one} for one in (before, record))
    changed = [name for name in (*_TOLD, *brings) if was.get(name) not in (None, now[name])]
    others = [f"{name} {now[name]} (was {was[name]})" for name in changed]
    if not is_new and _differ(began := before.get("backbone", {}), record["backbone"]):
        others.append(f"other weights in {plan.config.model.backbone} than it began from")
        record["backbone"] = began
    with writing_to(path):
        atomic_write(path, json_bytes(record))
    return [f"resumed with {', '.join(others)}"] if others else []


def _model(name: str) -> _Model:
    """The record of a model, with a checksum of its weights where no revision fixes them."""
    folder = resolve(name).folder()
    commit = revision(folder)
    files = [] if commit else sorted(chain.from_iterable(map(folder.glob, _WEIGHTS)))
    checksum = "+".join(map(checksum_of, files)) or None
    return {"name": name, "folder": str(folder), "revision": commit, "checksum": checksum}


def _commit() -> str | None:
    """The commit of the checkout that the package is imported from; None for an installed one."""
    folder = Path(__file__).parents[2]
    if not (folder / ".git").exists():
        return None
    try:
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return git.stdout.strip() or None
