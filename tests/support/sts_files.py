"""Small STS sets in the formats of SentEval's files, and an encoder that needs no model."""

import itertools
import math
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.evaluation.measure import SuiteResult, measure
from contrastcli.evaluation.procedure import Encode, Options, Subject
from contrastcli.evaluation.senteval import SUBSETS
from contrastcli.evaluation.suites import STS
from contrastcli.settings.sections import Kind

Row = tuple[str, str, str]
"""First sentence, second sentence, gold score as in the file."""


class FakeEncoder:
    """A fixed vector for each text; `calls` records the texts of each call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str], kind: Kind | None = None) -> NDArray[np.float32]:
        self.calls.append(texts)
        return np.array([vector_of(text) for text in texts], dtype=np.float32)  # (S, 3)


_FINGERPRINTS = itertools.count()


def subject(encode: Encode) -> Subject:
    """A subject with a fingerprint of its own, so that no cached result of another applies to it."""
    return Subject("fake", encode, "cls", fingerprint=str(next(_FINGERPRINTS)))


def measured(encode: Encode | Subject, folder: Path | None, *tasks: str) -> SuiteResult:
    """The STS suite, all of it unless tasks are named."""
    return measure(STS, encode if isinstance(encode, Subject) else subject(encode), Options(folder, tasks))


def vector_of(text: str) -> list[float]:
    digest = zlib.crc32(text.encode())
    return [(digest >> shift) % 251 - 100.5 for shift in (0, 8, 16)]


def cosine_of(first: str, second: str) -> float:
    """The cosine of the vectors of two texts."""
    a, b = vector_of(first), vector_of(second)
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)


def some_rows(name: str, count: int = 6) -> list[Row]:
    """Rows whose sentences carry the name, with golds that repeat, since real ones are tied."""
    return [(f"{name} a {i}", f"{name} b {i}", f"{i * 7 % 5:.2f}") for i in range(count)]


def write_subset(folder: Path, task: str, subset: str, rows: Sequence[Row], end: str = "\n") -> None:
    place = folder / "STS" / f"{task}-en-test"
    write_lines(place / f"STS.input.{subset}.txt", [f"{first}\t{second}" for first, second, _ in rows], end)
    write_lines(place / f"STS.gs.{subset}.txt", [gold for _, _, gold in rows], end)


def write_lines(path: Path, lines: Sequence[str], end: str = "\n", encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode(encoding))


def write_year(folder: Path, task: str) -> dict[str, list[Row]]:
    parts = SUBSETS[task]
    rows = {subset: some_rows(f"{task} {subset}", 6 + i) for i, subset in enumerate(parts)}
    for subset in parts:
        write_subset(folder, task, subset, rows[subset])
    return rows


def write_stsb(folder: Path, rows: Sequence[Row], split: str = "test") -> None:
    lines = [f"main-captions\tMSRvid\t2012test\t{i:04}\t{gold}\t{a}\t{b}" for i, (a, b, gold) in enumerate(rows)]
    write_lines(folder / "STS" / "STSBenchmark" / f"sts-{split}.csv", lines)


def write_sick(folder: Path, rows: Sequence[Row]) -> None:
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"
    lines = [f"{i}\t{a}\t{b}\t{gold}\tNEUTRAL" for i, (a, b, gold) in enumerate(rows)]
    write_lines(folder / "SICK" / "SICK_test_annotated.txt", [header, *lines], "\r\n")


def write_all(folder: Path) -> None:
    for task in SUBSETS:
        write_year(folder, task)
    write_stsb(folder, some_rows("stsb"))
    write_sick(folder, some_rows("sick"))


def write_published_counts(folder: Path) -> None:
    """All seven sets with as many scored pairs as the published ones, of few distinct sentences."""
    for task, parts in SUBSETS.items():
        for i, subset in enumerate(parts):
            count = STS.tasks[task][0] - 10 * (len(parts) - 1) if i == 0 else 10
            write_subset(folder, task, subset, few_sentences(count))
    write_stsb(folder, few_sentences(STS.tasks["STS-B"][0]))
    write_sick(folder, few_sentences(STS.tasks["SICK-R"][0]))


def few_sentences(count: int) -> list[Row]:
    return [(f"sentence {i % 37}", f"sentence {i % 23}", f"{i * 7 % 5}") for i in range(count)]


def problem(result: SuiteResult, task: str) -> tuple[str, str]:
    return result.missing[task].what, result.missing[task].hint
