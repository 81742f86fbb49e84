"""Checksums of a checkpoint's files, so that a damaged file is known before it is used.

    checksums.json   {"config.json": "5a0c94b1d3e8f207", …}, XXH3-64 in hexadecimal

A checkpoint has one in its folder, for the model, and one in `training/`. Folders without it are not checked: models
of other tools, and checkpoints of older versions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from contrastcli.errors import DataError
from contrastcli.files import atomic_write, check_regular, checksum_of, error_text, read_json, replaced

CHECKSUMS = "checksums.json"


def write(folder: Path) -> None:
    """Write the checksums of all files below a folder. Raises OSError."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != CHECKSUMS]
    sums = {path.relative_to(folder).as_posix(): checksum_of(path) for path in paths}
    (folder / CHECKSUMS).write_bytes(_encode(sums))


def replace(folder: Path, name: str, data: bytes) -> None:
    """Replace a file, whose line names both checksums until that is done: a kill leaves it valid. Raises OSError."""
    path, sums = folder / name, read_json(folder / CHECKSUMS, dict[str, str])
    with replaced(path) as draft:
        with open(draft, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new = checksum_of(draft)
        if sums and sums[name] != new:
            atomic_write(folder / CHECKSUMS, _encode(sums | {name: f"{sums[name]} {new}"}))
    if sums:
        atomic_write(folder / CHECKSUMS, _encode(sums | {name: new}))


def _encode(sums: Mapping[str, str]) -> bytes:
    return (json.dumps(sums, indent=2) + "\n").encode()


def faults(folder: Path) -> Iterator[DataError]:
    """What is wrong with the files that a folder's checksums.json names, an error each."""
    try:
        sums = read_json(folder / CHECKSUMS, dict[str, str]) or {}
    except DataError as error:
        yield DataError(error.what, _remedy(folder))
        return
    for name, expected in sums.items():
        if fault := _fault(folder / name, expected):
            yield DataError(f"{folder / name} {fault}", _remedy(folder))


def _fault(path: Path, expected: str) -> str:
    try:
        check_regular(path)
        return "" if checksum_of(path) in expected.split() else f"is damaged: its checksum is not that in {CHECKSUMS}"
    except FileNotFoundError:
        return "is missing"
    except (OSError, DataError) as error:
        return f"cannot be read: {error_text(error)}"


def check(folder: Path) -> None:
    """Raises DataError for the first file that is missing or damaged."""
    for fault in faults(folder):
        raise fault


def _remedy(folder: Path) -> str:
    checkpoint = folder.parent if folder.name == "training" else folder
    if checkpoint.parent.name == "checkpoints":
        others = [path for path in sorted(checkpoint.parent.glob("[0-9]*")) if path.name != checkpoint.name]
        use = f"use the model {others[-1]} (--model, --backbone)" if others else "train again"
    else:
        use = f"remove {CHECKSUMS} if you changed it yourself"
    return f"restore the file from a copy, or {use}"
