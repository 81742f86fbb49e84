"""Small transfer sets in the formats of SentEval's files, and an encoder that half knows their classes."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from contrastcli.evaluation.measure import SuiteResult, measure
from contrastcli.evaluation.procedure import Options
from contrastcli.evaluation.suites import Suite
from contrastcli.settings.sections import Kind
from support.sts_files import subject, write_lines

POLARITY = {
    "MR": ("rt-polarity.neg", "rt-polarity.pos"),
    "CR": ("custrev.neg", "custrev.pos"),
    "SUBJ": ("subj.subjective", "subj.objective"),
    "MPQA": ("mpqa.neg", "mpqa.pos"),
}
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
WIDTH = 4


class HalfKnowing:
    """The number after a text's `#` pulls its vector towards that class; the rest is noise of its own."""

    def __init__(self, pull: float = 1.0) -> None:
        self.pull = pull
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str], kind: Kind | None = None) -> NDArray[np.float32]:
        self.calls.append(texts)
        return np.stack([self.vector(text) for text in texts])  # (N, WIDTH)

    def vector(self, text: str) -> NDArray[np.float32]:
        noise = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(WIDTH)
        noise[int(text.partition("#")[2][:1] or 0) % WIDTH] += self.pull
        return noise.astype(np.float32)


def texts(name: str, label: int, count: int) -> list[str]:
    return [f"{name} {i} #{label}" for i in range(count)]


def write_polarity(folder: Path, task: str, count: int) -> None:
    for label, name in enumerate(POLARITY[task]):
        write_lines(folder / task / name, [f"{text} " for text in texts(task, label, count)])


def write_sst2(folder: Path, counts: Sequence[int]) -> None:
    for split, count in zip(("train", "dev", "test"), counts, strict=True):
        rows = [f"{text} \t{label}" for label in (0, 1) for text in texts(f"sst {split}", label, count)]
        write_lines(folder / "SST" / "binary" / f"sentiment-{split}", rows)


def write_sst5(folder: Path, counts: Sequence[int]) -> None:
    for split, count in zip(("train", "dev", "test"), counts, strict=True):
        rows = [f"{label} {text}" for label in range(5) for text in texts(f"fine {split}", label, count)]
        write_lines(folder / "SST" / "fine" / f"sentiment-{split}", rows)


def write_trec(folder: Path, counts: Sequence[int]) -> None:
    for name, count in zip(("train_5500.label", "TREC_10.label"), counts, strict=True):
        rows = [f"{word}:sub {text}" for n, word in enumerate(TREC_CLASSES) for text in texts(name, n, count)]
        write_lines(folder / "TREC" / name, rows, encoding="latin-1")


def write_mrpc(folder: Path, counts: Sequence[int]) -> None:
    for split, count in zip(("train", "test"), counts, strict=True):
        rows = [
            f"{label}\t1\t2\t{text}\tother {text}" for label in (0, 1) for text in texts(f"mrpc {split}", label, count)
        ]
        write_lines(folder / "MRPC" / f"msr_paraphrase_{split}.txt", [HEADER, *rows], end="\r\n")


def write_transfer(folder: Path) -> None:
    """All eight, with 24 rows of each class to train on."""
    for task in POLARITY:
        write_polarity(folder, task, 24)
    for write_splits in (write_sst2, write_sst5):
        write_splits(folder, (24, 6, 8))
    for write_pair in (write_trec, write_mrpc):
        write_pair(folder, (24, 8))


SMALL = {
    **dict.fromkeys(POLARITY, (48,)),
    "SST2": (48, 12, 16),
    "SST5": (120, 30, 40),
    "TREC": (144, 48),
    "MRPC": (48, 16),
}
"""The counts of `write_transfer`."""


def as_small(suite: Suite) -> Suite:
    """The suite as if the sets of `write_transfer` were the published ones."""
    return replace(suite, tasks={task: SMALL[task] for task in suite.tasks})


def measured(suite: Suite, encode: HalfKnowing, folder: Path, *tasks: str) -> SuiteResult:
    """What a suite gives of this folder, all of it unless tasks are named."""
    return measure(suite, subject(encode), Options(data_dir=folder, tasks=tasks))


def write_one_file(path: Path, classes: int = 3, first: int = 0) -> None:
    write_lines(path, [f"{label + first}\t{text}" for label in range(classes) for text in texts("c", label, 20)])
