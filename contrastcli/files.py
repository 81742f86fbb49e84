"""The user's folders, and files that are never half written: replaced, cached, locked or flushed to disk."""

import contextlib
import errno
import glob
import json
import os
import re
import shlex
import shutil
import socket
import stat
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from contrastcli.errors import DataError, Hint, InUse, NoRoom, Remedy, RunError, UsageError, error_text, interrupted

T = TypeVar("T")

OF_A_PIPE = "write what is piped to a file, such as rows.csv, and name that"
"""What helps where a file cannot be read twice."""


def user_file() -> Path:
    """The user's settings file, which every other source overrides."""
    import platformdirs

    return Path(platformdirs.user_config_dir("contrast")) / "config.toml"


def cache_dir() -> Path:
    """The folder of cached tokens, embeddings and scores: CONTRAST_CACHE, else the user's cache folder."""
    import platformdirs

    return Path(os.environ.get("CONTRAST_CACHE") or platformdirs.user_cache_dir("contrast"))


def state_dir() -> Path:
    """The folder of the app's last choices: CONTRAST_STATE, else the user's state folder."""
    import platformdirs

    return Path(os.environ.get("CONTRAST_STATE") or platformdirs.user_state_dir("contrast"))


def check_regular(path: Path) -> None:
    """Raises DataError unless a path is an open regular file, FileNotFoundError where nothing is: a pipe would hang."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise
    # A circle of links, a name too long, a NUL character.
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error_text(error)}", "check the path and its permissions") from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{path} is a folder", "give the name of a file")
    if not stat.S_ISREG(mode):
        is_device = path.parts[:2] in (("/", "dev"), ("/", "proc"))
        remedy = OF_A_PIPE if is_device else "remove it, or put the file there again"
        raise DataError(f"{path} is not a regular file", remedy)
    if not os.access(path, os.R_OK):
        raise DataError(f"{path} cannot be read: permission denied", f"chmod u+r {shlex.quote(str(path))}")


def read_bytes(path: Path, most: int = 1 << 28) -> bytes:
    """The content of a regular file of at most that many bytes. Raises FileNotFoundError and DataError."""
    check_regular(path)
    try:
        with open(path, "rb") as file:
            # That much is allocated first, and a file of some systems says that it is empty.
            data = file.read(min(os.fstat(file.fileno()).st_size or most, most) + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error_text(error)}", "check the path and its permissions") from None
    if len(data) > most:
        raise DataError(f"{path} is larger than {most:,} bytes", "put the right file there")
    return data


def read_json(path: Path, kind: type[T], remedy: str = "restore the file, or remove it") -> T | None:
    """The content of a JSON file, None if there is no such file. Raises DataError if it is not of that kind."""
    try:
        data = read_bytes(path)
    except FileNotFoundError:
        return None
    with decoding(path, remedy):
        return msgspec.json.decode(data, type=kind)


@contextlib.contextmanager
def decoding(path: Path, remedy: Hint = "restore the file, or remove it") -> Iterator[None]:
    """Turn the error of a decoder in the body, which decodes the content of `path`, into a DataError."""
    try:
        yield
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is malformed: {error_text(error)}", remedy) from None


def json_bytes(value: object) -> bytes:
    """A value as the content of a JSON file."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


@contextlib.contextmanager
def replaced(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary file that replaces `path` after the body, or is removed on an error. Raises OSError.

    Of a link what it leads to is replaced, as wherever else a file is written.
    """
    path = Path(os.path.realpath(path))
    # Not tempfile: its files are closed to other users, who may watch a run on a shared disk.
    draft = draft_of(path)
    draft.touch(0o600 if private else 0o666, exist_ok=False)  # fails before the work
    try:
        yield draft
        # Without this a power cut may leave an empty file in place of the old one.
        flush(draft)
        os.replace(draft, path)
        fsync_dir(path.parent)
    finally:
        draft.unlink(missing_ok=True)


class Draft:
    """A file that begins with a head and grows by parts; those that an earlier process wrote for its key are kept."""

    def __init__(self, file: BinaryIO, record: Path, key: str, head: bytes) -> None:
        self._file, self._record, self._key = file, record, key
        owner, size = "", 0
        with contextlib.suppress(DataError):
            owner, size = read_json(record, tuple[str, int]) or (owner, size)
        is_kept = owner == key and size <= file.seek(0, os.SEEK_END)
        self.kept = size - len(head) if is_kept else 0
        """Bytes after the head that are there."""
        self.is_lost = record.exists() and not is_kept
        """Whether what is there was cut short, or for another key."""
        # What follows may be half a part.
        file.truncate(size if is_kept else 0)
        if not is_kept:
            file.write(head)

    def append(self, part: memoryview) -> None:
        """Add a part, durably. Raises OSError."""
        self._file.write(part)
        self._file.flush()
        os.fsync(self._file.fileno())
        atomic_write(self._record, json_bytes((self._key, self._file.tell())))


@contextlib.contextmanager
def resumed(path: Path, key: str, head: bytes, *elsewhere: Remedy) -> Iterator[Draft]:
    """A draft that replaces `path` after the body. On an error it stays, and the next call for its key continues it.

    Raises RunError where it cannot be written, with how the user writes `elsewhere`, and where another process does.
    """
    target = Path(os.path.realpath(path))
    place, record, lock = (target.with_name(f".{target.name}.{end}") for end in ("part", "part.json", "lock"))
    taken = InUse(f"another process writes {path}", ["wait for its end", *elsewhere])
    with locked(lock, taken, *elsewhere), writing_to(path, *elsewhere):
        try:
            with open(place, "a+b") as file:
                yield Draft(file, record, key, head)
            os.replace(place, target)
            record.unlink(missing_ok=True)
            fsync_dir(target.parent)
        except KeyboardInterrupt as error:
            raise interrupted(error, "the same command continues it") from None
        finally:
            if not record.exists():
                place.unlink(missing_ok=True)
            # Some systems delete no open file.
            with contextlib.suppress(OSError):
                lock.unlink()


def check_output(path: Path, what: str, known: Collection[str]) -> None:
    """Raise RunError without the folder of a file to write, UsageError where its suffix is not a known one."""
    if not path.parent.is_dir():
        raise RunError(f"there is no folder {path.parent}", f"mkdir -p {shlex.quote(str(path.parent))}")
    if path.is_dir():
        raise RunError(f"{path} is a folder", "give the name of a file")
    if path.suffix not in known:
        raise UsageError(f"{what} cannot be written as '{path.name}'", f"use {', '.join(known)}")


def draft_of(path: Path) -> Path:
    """An unused temporary name next to a path. What processes that were killed left under such names is removed."""
    host = f"{zlib.crc32(socket.gethostname().encode()):08x}"
    for draft in path.parent.glob(f".{glob.escape(path.name)}.{host}-*.tmp"):
        # It takes a tenth of a second to load, and few processes are killed.
        import psutil

        pid = draft.name.removesuffix(".tmp").rpartition(f".{host}-")[2].partition("-")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with contextlib.suppress(OSError):
                shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
    return path.with_name(f".{path.name}.{host}-{os.getpid()}-{os.urandom(2).hex()}.tmp")


def atomic_write(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace a file's contents at once: readers see the old bytes or the new ones. Raises OSError.

    What is `private` only its owner can read.
    """
    with replaced(path, private=private) as draft:
        draft.write_bytes(data)


def cached(name: str, load: Callable[[Path], T], write: Callable[[Path], object]) -> T | None:
    """Load a file of the cache, made by `write` where it is missing or damaged; None if it cannot be written."""
    loaded = load_cached(name, load)
    if loaded is None and store_cached(name, write):
        with contextlib.suppress(OSError):
            return load(cache_dir() / name)
    return loaded


def load_cached(name: str, load: Callable[[Path], T]) -> T | None:
    """Load a file of the cache; None where it is missing or damaged, for which `load` may raise any exception."""
    path = cache_dir() / name
    with contextlib.suppress(Exception):
        if read_bytes(cache_dir() / "checksums" / name) == checksum_of(path).encode():
            return load(path)
    return None


def store_cached(name: str, write: Callable[[Path], object]) -> bool:
    """Write a file of the cache and its checksum; returns whether it can be written."""
    path, checksum = cache_dir() / name, cache_dir() / "checksums" / name
    try:
        for folder in (path.parent, checksum.parent):
            folder.mkdir(parents=True, exist_ok=True)
        with replaced(path) as draft:
            write(draft)
        atomic_write(checksum, checksum_of(path).encode())
    except OSError:
        return False
    return True


def checksum_of(path: Path) -> str:
    """The XXH3-64 of a regular file in hexadecimal, as `xxhsum -H3` prints it. Raises OSError and DataError."""
    # Imported here, since few commands need what they load, OpenSSL among it.
    import hashlib

    import xxhash

    check_regular(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_64).hexdigest()


def cache_key(version: str, texts: Iterable[str]) -> str:
    """The SHA-256, in hexadecimal, of texts and of the version of what is computed from them."""
    import hashlib

    digest = hashlib.sha256(version.encode())
    for text in texts:
        data = text.encode()
        # With its length, since a text may hold any character.
        digest.update(b"%d " % len(data) + data)
    return digest.hexdigest()


def fsync_dir(folder: Path) -> None:
    """Make the names in a folder durable, on systems that can: Windows and some shared disks cannot."""
    with contextlib.suppress(OSError):
        flush(folder)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
LOCK_WAIT_SECONDS = 1.0
_REMEDIES: Mapping[int | None, str] = {
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.EAGAIN: "raise the limit on processes (ulimit -u)",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "make the folder again",
    errno.EEXIST: "name a folder, which this is not",
    errno.ENOTDIR: "name a folder, which this is not",
    errno.EROFS: "mount the disk for writing",
    errno.EIO: "check the disk",
}


@contextlib.contextmanager
def writing_to(path: Path, *elsewhere: Remedy) -> Iterator[None]:
    """Turn an error of the system in the body, which writes below `path`, into a RunError with its message.

    Its remedies are that of the error, and how the user writes `elsewhere` where the command can.
    """
    try:
        yield
    except Exception as error:
        if (cause := system_error(error)) is None:
            raise
        # The name of a draft means nothing to a user, nor does one without its folder.
        parts = Path(cause.filename or "").parts
        named = len(parts) > 1 and not any(part.startswith(".") for part in parts)
        what = f"cannot write {cause.filename if named else path}: {error_text(cause)}"
        kind = NoRoom if cause.errno in _NO_ROOM else RunError
        raise kind(what, [_remedy(cause.errno, Path(cause.filename) if named else path), *elsewhere]) from error


def _remedy(number: int | None, target: Path) -> str:
    """What helps where `target` cannot be written."""
    if number not in (*_NO_ROOM, errno.EACCES, errno.EPERM):
        return _REMEDIES.get(number, "check the path and its disk")
    places = [place for place in (target, *target.parents) if place.exists()]
    if number in _NO_ROOM:
        disk = next(filter(os.path.ismount, (places[0].absolute(), *places[0].absolute().parents)))
        return f"make room on the disk of {disk}, where {shutil.disk_usage(disk).free / 1e6:,.0f} MB are free"
    closed = next((place for place in places if not os.access(place, os.W_OK)), None)
    is_own = closed and closed.stat().st_uid == getattr(os, "getuid", lambda: 0)()
    return f"chmod u+w {shlex.quote(str(closed))}" if is_own else "name a folder of your own"


def system_error(error: BaseException) -> OSError | None:
    """The error of the system that an exception is, or that a library in Rust has put into words, as safetensors."""
    if isinstance(error, OSError):
        return error
    number = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(number[1]), os.strerror(int(number[1]))) if number else None


def make_folder(path: Path) -> None:
    """Make a folder unless it exists. Raises RunError if it cannot be written to."""
    with writing_to(path):
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def is_writable(folder: Path) -> bool:
    """Whether a folder, which is made unless it exists, can be written to."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK)


@contextlib.contextmanager
def locked(path: Path, taken: RunError, *elsewhere: Remedy) -> Iterator[None]:
    """Hold a lock file, which the system frees if the process dies. Raises `taken` if another process holds it.

    Waits for a moment first: a process that was killed keeps its files open until the system has taken it down.
    """
    import filelock

    with writing_to(path.parent, *elsewhere):
        try:
            held = filelock.FileLock(path).acquire(timeout=LOCK_WAIT_SECONDS, poll_interval=0.02)
        except filelock.Timeout:
            raise taken from None
    with held:
        yield


def flush(path: Path) -> None:
    """Make what a file or a folder holds durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Make everything below a folder durable, and its files as open to other users as the folder is."""
    # safetensors closes its files to all other users.
    mode = folder.stat().st_mode & 0o666
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            # Some file systems have no modes.
            with contextlib.suppress(PermissionError):
                path.chmod(mode)
            flush(path)
        else:
            fsync_dir(path)
    fsync_dir(folder)
