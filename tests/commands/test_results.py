"""What a command prints as JSON is one type, which another process decodes and gets all of."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from contrastcli.runs.directory import Run
from contrastcli.runs.results import Benchmark, Comparison, Nearest, Preview, Similarity
from support.command import LABELLED, MODEL, Contrast, sentences, train


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (train(*LABELLED, "--dry-run"), Preview),
        (("query", "ba den", "go", *MODEL), Similarity),
        (("query", "ba den", "--corpus", "corpus.txt", *MODEL), Nearest),
        (("bench", *MODEL, "--minutes", "0"), list[Benchmark]),
        (("compare", "simple", "other"), Comparison),
        (("compare", "simple", "other", "--bootstrap"), Comparison),
    ],
    ids=["dry run", "similarity", "neighbours", "benchmark", "comparison", "bootstrap"],
)
def test_the_type_holds_all_that_is_printed(contrast: Contrast, run: Run, words: tuple[str, ...], kind: Any) -> None:
    shutil.copytree(run.path, "runs/other")
    Path("corpus.txt").write_text("\n".join(sentences()))
    answer = contrast(*words, "--json")
    assert answer.code == 0, answer.err
    text = f"[{','.join(answer.out.splitlines())}]" if kind == list[Benchmark] else answer.out
    if kind in (Preview, Comparison):
        printed = json.loads(text)
        assert printed.pop("schema") == 1
        text = json.dumps(printed)
    result = msgspec.json.decode(text, type=kind, dec_hook=lambda kind, name: kind(*name.split(maxsplit=1)))
    assert json.loads(msgspec.json.encode(result)) == json.loads(text)
