"""Checksums of a checkpoint's files, so that a damaged file is known before it is used.

    checksums.json   {"config.json": "5a0c94b1d3e8f207", …}, XXH3-64 in hexadecimal

A checkpoint has one in its folder, for the model, and one in `training/`. Models outside of runs are not checked: they
may have a file of this name for another purpose.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from contrastcli.errors import DataError, error_text
from contrastcli.files import atomic_write, checksum_of, json_bytes, read_json
from contrastcli.runs.directory import TRAINING, Run

CHECKSUMS = "checksums.json"


def write(folder: Path) -> None:
    """Write the checksums of all files below a folder. Raises OSError."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CHECKSUMS]
    _write(folder, {path.relative_to(folder).as_posix(): checksum_of(path) for path in paths})


def replace(folder: Path, name: str, data: bytes) -> None:
    """Replace a file, which is not listed until that is done: a kill leaves it valid. Raises OSError and DataError."""
    sums = read_json(folder / CHECKSUMS, dict[str, str])
    if sums is not None:
        _write(folder, {other: checksum for other, checksum in sums.items() if other != name})
    atomic_write(folder / name, data)
    if sums is not None:
        _write(folder, sums | {name: checksum_of(folder / name)})


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    atomic_write(folder / CHECKSUMS, json_bytes(sums))


def check(folder: Path) -> None:
    """Compare the checksums of a checkpoint, or of its training/. Raises DataError for the first that differs."""
    checkpoint = folder.parent if folder.name == TRAINING else folder
    run = Run(checkpoint.absolute().parent.parent)
    if checkpoint.absolute().parent != run.checkpoints_dir or not run.exists():
        return
    if fault := next(_faults(folder), ""):
        others = [path for path in sorted(checkpoint.parent.glob("[0-9]*")) if not any(_faults(path))]
        remedies = [f"use the model {path} (--model, --backbone)" for path in others if path.name != checkpoint.name]
        again = f"contrast train --config {shlex.quote(str(checkpoint.parent.parent / run.config_path.name))}"
        raise DataError(fault, [*remedies[-1:], f"train again: {again}", "restore the file from a copy"])


def _faults(folder: Path) -> Iterator[str]:
    """What is wrong with a folder that has checksums."""
    try:
        sums = read_json(folder / CHECKSUMS, dict[str, str])
    except DataError as error:
        yield error.what
        return
    for path, expected in ((folder / name, expected) for name, expected in (sums or {}).items()):
        try:
            if checksum_of(path) != expected:
                yield f"{path} is damaged: its checksum is not that in {CHECKSUMS}"
        except FileNotFoundError:
            yield f"{path} is missing"
        except OSError as error:
            yield f"{path} cannot be read: {error_text(error)}"
