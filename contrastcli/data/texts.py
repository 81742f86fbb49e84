"""Texts by the million: their bytes in one array, which is mapped from disk where it is large, and a hash of each."""

import pickle
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, SupportsIndex, TypeVar, cast, overload

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from contrastcli.files import cache_dir, is_writable, writing_to

T = TypeVar("T")
T_rows = TypeVar("T_rows", NDArray[np.int64], range)
T_kind = TypeVar("T_kind", bound=np.generic)
T_co = TypeVar("T_co", covariant=True)

IN_MEMORY = 1 << 24
"""Bytes of an array; a larger one is in a temporary file in the folder of the cache."""

# Cells that are encoded or decoded at once: some are long.
_BLOCK = 1_000
_ROWS = 100_000
_HASH_PARTS = 16
# The first byte of a cell that is no text: UTF-8 never has it.
_NOT_TEXT = 0xFF


class GrowingArray:
    """An array that is written from its beginning to its end, in memory or in a temporary file without a name."""

    def __init__(self, kind: type[np.generic]) -> None:
        self._kind = np.dtype(kind)
        # Else in the system's folder for temporary files.
        folder = str(cache_dir()) if is_writable(cache_dir()) else None
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY, dir=folder)  # noqa: SIM115

    def __del__(self) -> None:
        """Close the file; what is mapped from it stays."""
        with suppress(OSError):
            self._file.close()

    def extend(self, values: ArrayLike) -> None:
        """Add values at the end. Raises RunError where the disk is full."""
        with writing_to(cache_dir()):
            self._file.write(np.ascontiguousarray(values, self._kind).view(np.uint8).data)
            self._file.flush()

    def array(self) -> NDArray[Any]:
        """All values, which no longer change."""
        if self._file.tell() > IN_MEMORY:
            return np.memmap(self._file, self._kind, "r").view(np.ndarray)
        self._file.seek(0)
        return np.frombuffer(self._file.read(), self._kind)


def on_disk(values: NDArray[T_kind]) -> NDArray[T_kind]:
    """The same values, mapped from a temporary file where they are many."""
    return values if values.nbytes <= IN_MEMORY else _joined(values.dtype.type, [values])


def _parts(rows: T_rows) -> Iterator[T_rows]:
    return (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))


def _joined(kind: type[np.generic], parts: Iterable[ArrayLike]) -> NDArray[Any]:
    """An array of parts, mapped from a temporary file where it is large."""
    waiting = iter(parts)
    first = [np.ascontiguousarray(part, kind) for part in islice(waiting, 2)]
    if len(first) == 1 and first[0].nbytes <= IN_MEMORY:
        return first[0]
    array = GrowingArray(kind)
    for part in chain(first, waiting):
        array.extend(part)
    return array.array()


@dataclass(frozen=True, eq=False)
class Store:
    """Cells, one after the other: cell i is `data[starts[i]:starts[i + 1]]`, a text in UTF-8 or a pickled value.

    Equal `hashes` (XXH3-64) mean equal cells: that any two of ten million texts have the same has a chance of 3e-6.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]  # (N + 1,)
    hashes: NDArray[np.uint64]  # (N,)


def _encode(cell: object) -> bytes:
    """A cell of a store; texts are without the white space around them."""
    return cell.strip().encode() if type(cell) is str else bytes([_NOT_TEXT]) + pickle.dumps(cell)


def _decode(data: memoryview) -> Any:
    return str(data, "utf-8") if not data or data[0] != _NOT_TEXT else pickle.loads(data[1:])


@dataclass(frozen=True, eq=False)
class Column(Sequence[T_co]):
    """Some cells of a store in an order of their own, read as a sequence of texts or of other values."""

    store: Store
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, cells: Iterable[T_co]) -> "Column[T_co]":
        """A column of its own; texts without the white space around them."""
        return read_columns(["only"], cells)["only"]

    @classmethod
    def join(cls, parts: "Sequence[Column[T_co]]") -> "Column[T_co]":
        """Columns one after the other; those of several stores are copied into one."""
        if len({part.store for part in parts}) > 1:
            return cls.of(chain.from_iterable(parts))
        return cls(parts[0].store, on_disk(np.concatenate([part.rows for part in parts])))

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: SupportsIndex) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[T_co]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T_co | list[T_co]:
        data, starts, rows = self.store.data.data, self.store.starts, self.rows[index]
        if not isinstance(index, slice):
            return cast(T_co, _decode(data[starts[rows] : starts[rows + 1]]))
        ends = zip(starts[rows].tolist(), starts[rows + 1].tolist(), strict=True)
        return [_decode(data[start:end]) for start, end in ends]

    def __iter__(self) -> Iterator[T_co]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start : start + _BLOCK]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def take(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> "Column[T_co]":
        """The cells with these numbers, or those under a mask."""
        return Column(self.store, on_disk(self.rows[rows]))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The bytes of each cell: (N,)."""
        starts = self.store.starts
        return _joined(np.int64, (starts[rows + 1] - starts[rows] for rows in _parts(self.rows)))

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """A hash of each cell: (N,)."""
        return _joined(np.uint64, (self.store.hashes[rows] for rows in _parts(self.rows)))

    @property
    def is_text(self) -> NDArray[np.bool_]:
        """Which cells are texts: (N,)."""

        def check(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
            first, end = self.store.starts[rows], self.store.starts[rows + 1]
            is_text: NDArray[np.bool_] = first == end
            is_text[~is_text] = self.store.data[first[~is_text]] != _NOT_TEXT
            return is_text

        return _joined(np.bool_, map(check, _parts(self.rows)))

    def distinct(self) -> "tuple[Column[T_co], NDArray[np.int64]]":
        """The distinct cells in order of appearance, and the number of each cell among them: (N,)."""
        hashes, is_first = self.hashes, np.zeros(len(self), bool)
        first = np.empty(len(self), np.int64)  # of the first equal cell
        # Sorting a part at a time takes little memory.
        for part in range(_HASH_PARTS):
            places = np.flatnonzero(hashes % np.uint64(_HASH_PARTS) == part)
            _, chosen, equal = np.unique(hashes[places], return_index=True, return_inverse=True)
            first[places] = places[chosen][equal]
            is_first[places[chosen]] = True
        del hashes
        numbers = np.cumsum(is_first) - 1
        return self.take(is_first), on_disk(np.take(numbers, first, out=first, mode="clip"))


Texts = Column[str]


def read_columns(names: Sequence[str], cells: Iterable[T]) -> dict[str, Column[T]]:
    """The columns of a table, given its cells row by row."""
    data, starts, hashes = (GrowingArray(kind) for kind in (np.uint8, np.int64, np.uint64))
    starts.extend([0])
    end, waiting = 0, iter(cells)
    while block := [_encode(cell) for cell in islice(waiting, _BLOCK)]:
        ends = end + np.cumsum([len(cell) for cell in block])
        data.extend(np.frombuffer(b"".join(block), np.uint8))
        starts.extend(ends)
        hashes.extend([xxhash.xxh3_64_intdigest(cell) for cell in block])
        end = int(ends[-1])
    store = Store(data.array(), starts.array(), hashes.array())
    rows = (range(place, len(store.hashes), len(names)) for place in range(len(names)))
    return {name: Column(store, _joined(np.int64, _parts(some))) for name, some in zip(names, rows, strict=True)}
