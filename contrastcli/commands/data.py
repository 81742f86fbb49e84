"""`contrast data`: what is in training rows, what is unusual in them, and a file without that."""

import math
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from contrastcli.boundary import narrate, narrate_all
from contrastcli.data.batching import Indices
from contrastcli.data.dev_data import read_dev
from contrastcli.data.downloads import counted
from contrastcli.data.examples import Examples, are_lists, from_frame
from contrastcli.data.findings import Finding, Keyed, contradicting, languages, leaks, near, repeated, same
from contrastcli.data.formats import Frame
from contrastcli.data.forms import FORMS, KINDS, LONGEST, STAYING
from contrastcli.data.roles import listed
from contrastcli.data.sources import open_frame, read_sets
from contrastcli.data.writing import WRITERS, as_json_line, check_rows_output, write_csv
from contrastcli.errors import DataError, UsageError, Use, nearest
from contrastcli.files import replaced, writing_to
from contrastcli.model.locate import ModelRef, resolve
from contrastcli.runs.results import Found, Inspected, Lengths, Neighbour, Odd
from contrastcli.runs.text import excerpt
from contrastcli.settings.other_names import our_name
from contrastcli.show import console

if TYPE_CHECKING:
    from contrastcli.model.mining import OtherPositives

DROPPED = ".dropped"
"""The suffix of the file next to clean rows that lists, a JSON object a line, what was left out and why."""

_NEIGHBOURS = 3
_FIRST_ROWS, _LONGEST_VALUE = 20, 200
"""What is read to list columns, and characters of a value."""
_BLOCK = 1_000
_LANGUAGES = 'languages are not told; for that: pip install "contrastcli[languages]"'


@dataclass
class Inspection:
    """Rows with what was found in them, by kind, and with the lengths of their texts and their languages by role.

    A finding's rows count from 0 in the `frame`.
    """

    frame: Frame
    rows: Examples
    found: dict[str, list[Finding]]
    lengths: dict[str, Lengths]
    languages: dict[str, dict[str, float]]
    others: "OtherPositives | None" = None

    @cached_property
    def numbers(self) -> Indices:
        """The number in the frame, from 0, of each row that is complete."""
        return self.rows.row_numbers - 1

    def add(self, kind: str, findings: Iterable[Finding]) -> None:
        """Add what was found among the complete rows."""
        numbers = np.append(self.numbers, -1)  # the last for none
        placed = [one._replace(row=int(numbers[one.row]), other=int(numbers[one.other])) for one in findings]
        # Several positives in one row are no rows of their own.
        self.found[kind] = [one for one in placed if one.row != one.other]

    def kind(self, name: str, most: int, drops: bool) -> Found:
        """The rows of a kind, of which the strangest are described, at most so many."""
        by_row = {one.row: one for one in self.found[name]}
        strangest = sorted(by_row.values(), key=lambda one: -one.weight)[:most]
        return Found(name, KINDS[name], len(by_row), drops, [self._odd(one) for one in strangest])

    def _odd(self, one: Finding) -> Odd:
        row, neighbours = one.row, [*self._neighbours(one.row)]
        odd = Odd(row + 1, self.where(row), self._texts(row), one.why, neighbours=neighbours)
        if one.other < 0:
            return odd
        where, texts = self.where(one.other), self._texts(one.other)
        return msgspec.structs.replace(odd, other=one.other + 1, other_where=where, other_texts=texts)

    def _neighbours(self, row: int) -> Iterator[Neighbour]:
        """The positives of other anchors that are nearest to a row's anchor, where a model was given."""
        place = self._place(row)
        if self.others is None or place is None:
            return
        for other, cosine in zip(self.others.rows[place].tolist(), self.others.cosines[place].tolist(), strict=True):
            if other >= 0:
                text, angle = self.rows.views["positive"][other], math.degrees(math.acos(max(-1, min(1, cosine))))
                yield Neighbour(int(self.numbers[other]) + 1, text, cosine, angle)

    def where(self, row: int) -> str:
        """The line of a row, with its file where there are several."""
        files = self.frame.files
        return self.frame.where(row).removeprefix(f"{files[0][0]}, " if len(files) == 1 else "")

    def _place(self, row: int) -> int | None:
        """The place of a row of the frame among the complete ones."""
        place = int(np.searchsorted(self.numbers, row))
        return place if place < len(self.numbers) and self.numbers[place] == row else None

    def _texts(self, row: int) -> dict[str, str]:
        """The texts of a row by role, with its label or score; of one that is not complete all of its cells."""
        place = self._place(row)
        if place is None:
            cells = ((name, column[row]) for name, column in self.frame.columns.items())
            return {name: str(cell) for name, cell in cells if cell not in (None, "")}
        return self.rows.row(place)

    def reasons(self, drop: Collection[str | int], keep: Collection[str | int]) -> dict[int, list[str]]:
        """The rows to leave out, each with the reasons for it: those of kinds that drop, and some that are named."""
        reasons: dict[int, list[str]] = {row - 1: ["named"] for row in {*drop} - {*keep} if isinstance(row, int)}
        named, heirs = {*reasons}, dict[int, int]()
        for name in (kind for kind in self.found if _drops(kind, drop, keep)):
            for one in self.found[name]:
                # Of rows that equal one that is left out by name, the first stays in its place.
                is_like_named = name in ("repeated", "near") and one.other in named and one.row not in named
                if is_like_named and heirs.setdefault(one.other, one.row) == one.row:
                    continue
                other = f" ({self.where(one.other)})" if one.other >= 0 else ""
                reasons.setdefault(one.row, []).append(f"{name}: {one.why or KINDS[name]}{other}")
        return {row: reasons[row] for row in sorted(reasons) if row + 1 not in keep}


def _drops(kind: str, drop: Collection[str | int], keep: Collection[str | int]) -> bool:
    return kind not in keep and (kind in drop or kind not in STAYING)


def inspect(
    source: str,
    runs_dir: Path,
    *,
    model: str | None,
    dev: str,
    columns: str,
    labels: str,
    list_columns: bool,
    count: int,
    clean: Path | None,
    drop: str,
    keep: str,
) -> Inspected:
    """Look at rows, `count` of each kind, and write those that remain. Raises DataError, UsageError and RunError.

    With `list_columns` look at the first rows of the first set alone.
    """
    sets = read_sets(source)
    if list_columns:
        return _list_columns(sets[0][0], columns)
    if len(sets) > 1:
        hint = f"look at one after the other: contrast data {shlex.quote(sets[0][0])}, or put their files in a folder"
        raise UsageError(f"{source} are several sets", hint)
    if clean:
        check_rows_output(clean, source, dev)
    frame = open_frame(source, "train")
    if clean and clean.suffix != ".jsonl":
        _check_lists(frame, columns, clean)
    dropped, kept = (_read_words(words, len(frame)) for words in (drop, keep))
    seen = _look(frame, columns, labels, source, dev)
    if model:
        _ask(seen, resolve(model, runs_dir))
    narrate_all(seen.rows.notes)
    found = [seen.kind(name, count, _drops(name, dropped, kept)) for name in KINDS if name in seen.found]
    of_lists = f"rows that hold {len(seen.rows):,} " if len({*seen.numbers.tolist()}) < len(seen.rows) else ""
    form = of_lists + FORMS[seen.rows.read_as or seen.rows.form]
    result = Inspected(source, form, len(frame), model or "", seen.lengths, seen.languages, found, seen.rows.notes)
    if clean is None:
        return result
    reasons = seen.reasons(dropped, kept)
    if len(frame) - len(reasons) < 2:
        raise DataError(f"{source}: {len(frame) - len(reasons)} rows would remain", Use("--keep", "KIND", "keep some:"))
    _write(clean, seen, reasons)
    return msgspec.structs.replace(result, output=str(clean), kept=len(frame) - len(reasons))


def _check_lists(frame: Frame, columns: str, clean: Path) -> None:
    """Raises UsageError where texts are lists, which only a .jsonl holds."""
    for name, role in listed(frame, columns):
        if role and are_lists(frame.columns[name]):
            what = f"the texts of '{name}' are lists, which a {clean.suffix} does not hold"
            raise UsageError(what, Use("--clean", shlex.quote(str(clean.with_suffix(".jsonl"))), "write"))


def _list_columns(source: str, columns: str) -> Inspected:
    frame = open_frame(source, "train", _FIRST_ROWS)
    narrate_all(frame.notes)
    found = {}
    for name, role in listed(frame, columns):
        first = next((str(cell) for cell in frame.columns[name] if cell not in (None, "")), "")
        found[name] = {"role": role, "first": excerpt(first, _LONGEST_VALUE)}
    return Inspected(source, "", 0, "", {}, {}, [], frame.notes, columns=found)


def _read_words(words: str, rows: int) -> set[str | int]:
    """Kinds and numbers of rows, such as "long,3,7-9". Raises UsageError."""
    read: set[str | int] = set()
    for word in words.replace(",", " ").split():
        first, _, last = word.partition("-")
        if first.isdecimal() and last.isdecimal():
            if int(first) > int(last):
                raise UsageError(f"'{word}' are no rows", f"write {last}-{first}")
            read |= {*range(int(first), min(int(last), max(int(first), rows + 1)) + 1)}
        else:
            read.add(int(word) if word.isdecimal() else word)
    for one in read:
        if isinstance(one, str) and one not in KINDS:
            hint = nearest(our_name(one, "--drop"), KINDS)
            raise UsageError(f"'{one}' is neither a kind of rows nor the number of one", hint)
        if isinstance(one, int) and not 1 <= one <= rows:
            raise UsageError(f"there is no row {one:,}", f"the rows are 1 to {rows:,}")
    return read


def _look(frame: Frame, columns: str, labels: str, source: str, dev: str) -> Inspection:
    """What can be seen without a model. Raises DataError and UsageError."""
    rows = from_frame(frame, columns, labels, source, blank="drop")
    seen_before = read_dev(dev, columns, labels, blank="drop", by_name=True).texts if dev else ()
    views = {view: counted("counting words", texts) for view, texts in rows.views.items()}
    words = {view: Lengths.of((len(text.split()) for text in texts if text), 0) for view, texts in views.items()}
    seen, keyed = Inspection(frame, rows, {}, words, {}), Keyed.of(rows)
    has_texts = from_frame(frame, columns, labels, source, blank="drop", texts_only=True).row_numbers - 1
    seen.found["blank"] = [Finding(row) for row in np.setdiff1d(np.arange(len(frame)), has_texts).tolist()]
    has_scores = rows.scores is not None or rows.candidate_scores is not None
    if has_scores or rows.labels is not None or rows.read_as == "classes":
        kind = "unscored" if has_scores else "unlabelled"
        seen.found[kind] = [Finding(row) for row in np.setdiff1d(has_texts, seen.numbers).tolist()]
    with console.progress() as advance:
        seen.add("same", same(keyed))
        seen.add("contradicting", contradicting(keyed))
        seen.add("repeated", repeated(keyed))
        seen.add("near", near(keyed, partial(advance, "comparing")))
    if dev:
        seen.add("leak", leaks(keyed, seen_before))
    try:
        seen.languages, odd = languages(rows)
        seen.add("language", odd)
    except ModuleNotFoundError:
        narrate(f"note: {_LANGUAGES}")
    return seen


def _ask(seen: Inspection, ref: ModelRef) -> None:
    """Add what a model says: lengths in its tokens, texts that it cuts, and false negatives. Raises DataError."""
    from contrastcli.model.folder import load_model
    from contrastcli.model.mining import other_positives
    from contrastcli.training.inputs import measure_lengths

    encoder, rows = load_model(ref), seen.rows
    limit, read, contract = encoder.max_length, encoder.tokenizer, encoder.contract
    long = []
    for view, prompt in contract.prompts_of("auto", contract.prompts, rows.form, rows.views).items():
        texts = rows.views[view]
        seen.lengths[view] = measure_lengths([prompt + text for text in texts if text], read, limit)
        # A token has a byte at least, but for those that the tokenizer adds.
        some = np.flatnonzero(texts.sizes + len(prompt.encode()) + len(read.added) > limit)
        for start in range(0, len(some), _BLOCK):
            block = some[start : start + _BLOCK]
            counts = map(len, read.encode([prompt + text for text in texts.take(block)], LONGEST))
            long += [
                Finding(int(row), f"{view} of {count:,} tokens, of which {limit:,} are read", weight=count)
                for row, count in zip(block, counts, strict=True)
                if count > limit
            ]
    seen.add("long", long)
    if "positive" in rows.views and rows.form not in ("labelled", "scored"):
        with console.progress() as advance:
            seen.others = other_positives(rows, encoder, partial(advance, "encoding"), _NEIGHBOURS)
        nearer, why = seen.others.false_negatives(), "another positive is nearer to both, by {:.2f} in cosine"
        seen.add("false-negative", (Finding(row, why.format(by), other, by) for row, other, by in nearer))


def _write(output: Path, seen: Inspection, reasons: Mapping[int, Sequence[str]]) -> None:
    """The rows that remain, with all of their columns, after the list of the others."""
    columns = seen.frame.columns
    kept = np.ones(len(seen.frame), bool)
    kept[[*reasons]] = False
    rows: Iterable[Sequence[Any]] = zip(*(column.take(kept) for column in columns.values()), strict=True)
    with writing_to(output, Use("--clean", "FILE", "write elsewhere:")), replaced(output) as draft:
        write = partial(write_csv, like=seen.frame) if output.suffix == ".csv" else WRITERS[output.suffix]
        write(draft, [*columns], rows)
        with replaced(output.with_name(output.name + DROPPED)) as note, note.open("wb") as file:
            for row, why in reasons.items():
                cells = {name: column[row] for name, column in columns.items()}
                one = {"row": row + 1, "where": seen.where(row), "why": why, "columns": cells}
                file.write(as_json_line(one))


def report(result: Inspected, **how: str) -> None:
    """Say on stderr what was written, and the next step: `how` the data are read, and what stays, are as here."""
    chosen = {f"--{name}": value for name, value in (how | {"backbone": result.model}).items() if value}
    if result.output:
        left = f"{result.count - (result.kept or 0):,} are in {result.output}{DROPPED}"
        narrate(f"wrote {result.output}: {result.kept:,} of {result.count:,} rows; {left}")
    if result.columns:
        return
    words = ["data", result.source, *chain(*chosen.items()), "--clean", "clean.jsonl"]
    if result.output or not any(found.drops and found.count for found in result.found):
        read = ((name, value) for name, value in chosen.items() if name in ("--columns", "--labels", "--backbone"))
        words = ["suggest", result.output or result.source, *chain(*read)]
    narrate(f"next: {shlex.join(['contrast', *words])}")
