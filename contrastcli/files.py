"""Where the user's files are, and writing so that a reader, a crash or a full disk never leaves half of one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from contrastcli.errors import DataError, RunError

T = TypeVar("T")


def user_file() -> Path:
    """The user's own settings, below every other file."""
    import platformdirs

    return Path(platformdirs.user_config_dir("contrast")) / "config.toml"


def cache_dir() -> Path:
    """Where tokens and embeddings are cached: CONTRAST_CACHE, else the user's cache folder."""
    import platformdirs

    return Path(os.environ.get("CONTRAST_CACHE") or platformdirs.user_cache_dir("contrast"))


def state_dir() -> Path:
    """Where the app keeps what it remembers: CONTRAST_STATE, else the user's state folder."""
    import platformdirs

    return Path(os.environ.get("CONTRAST_STATE") or platformdirs.user_state_dir("contrast"))


def read_json(path: Path, kind: type[T]) -> T | None:
    """What a JSON file holds, None where there is no such file. Raises DataError where it holds something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise DataError(f"{path} is malformed: {error}", "restore the file, or remove it") from None


def atomic_write(path: Path, data: bytes) -> None:
    """Replace a file's contents at once: readers see the old bytes or the new ones. Raises OSError."""
    # Not tempfile: its files are closed to other users, who may watch a run on a shared disk.
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)


def fsync_dir(folder: Path) -> None:
    """Make the names in a folder durable, where the system can; Windows and some shared disks cannot."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Raises RunError, in the system's own words, where the body cannot write below `path`."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "make room, for instance with `contrast runs prune`" if full else "mend the permissions there"
        place = error.filename or path
        raise RunError(f"cannot write {place}: {error.strerror or error}", f"{remedy}, or write elsewhere") from error


def make_folder(path: Path) -> None:
    """Make a folder where there is none. Raises RunError unless it can be written to."""
    with writing_to(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@contextlib.contextmanager
def locked(path: Path, taken: RunError) -> Iterator[None]:
    """Hold a lock file, which the system frees should the process die. Raises `taken` while another process has it."""
    import filelock

    lock = filelock.FileLock(path)
    with writing_to(path.parent):
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            raise taken from None
    try:
        yield
    finally:
        lock.release()


def flush_tree(folder: Path) -> None:
    """Make everything below a folder durable."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        else:
            fsync_dir(path)
    fsync_dir(folder)
