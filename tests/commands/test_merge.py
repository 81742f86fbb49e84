"""`contrast merge`: which weights it writes, which it finds best, and when it writes nothing."""

import csv
import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from contrastcli.model.folder import load_encoder
from contrastcli.model.metrics import cosine
from contrastcli.runs.directory import Run
from support.command import Answer, Contrast, refused, sentences
from support.contracts import write_embedder
from support.tiny import Tiny, write_backbone

pytestmark = pytest.mark.usefixtures("quick_exports")

BASE, WEIGHTS = "tiny/backbone", "model.safetensors"

Tensors = dict[str, NDArray[Any]]


def weights(folder: str | Path) -> Tensors:
    """Every tensor of a model folder, those of layers after the pooling by their folder."""
    files = {file.parent.relative_to(folder): load_file(file) for file in Path(folder).rglob(WEIGHTS)}
    return {f"{place} {name}": tensor for place, tensors in files.items() for name, tensor in tensors.items()}


def between(base: Tensors, run: Tensors, alpha: float) -> Tensors:
    return {name: np.float32(1 - alpha) * base[name] + np.float32(alpha) * run[name] for name in run}


def write_like(folder: str, tensors: Tensors) -> str:
    """A model folder as the tiny backbone, with other weights."""
    shutil.copytree(BASE, folder)
    save_file(
        {name.removeprefix(". "): tensor for name, tensor in tensors.items()},
        Path(folder, WEIGHTS),
        metadata={"format": "pt"},
    )
    return folder


def moved(folder: str, seed: int = 0, by: float = 0.3) -> str:
    """A model that a training has moved far from the tiny backbone."""
    draw = np.random.default_rng(seed)
    noise = {n: t + by * draw.standard_normal(t.shape).astype(np.float32) for n, t in weights(BASE).items()}
    return write_like(folder, noise)


def rated(file: str, model: str, noise: float = 0.0) -> str:
    """Pairs with their cosine to a model as the score, so that without noise it alone has a correlation of 1."""
    first, second = (sentences()[start::2] for start in (0, 1))
    cosines = cosine(*map(loaded(model).encode, (first, second)))
    scores = cosines + noise * cosines.std() * np.random.default_rng(9).standard_normal(len(first))
    with open(file, "w", newline="") as stream:
        csv.writer(stream).writerow(("sentence1", "sentence2", "score"))
        csv.writer(stream).writerows(zip(first, second, scores, strict=True))
    return file


def loaded(folder: str) -> Any:
    return load_encoder(Path(folder)).eval()


def at(alpha: float, run: str) -> str:
    """The model at alpha, made by hand."""
    return write_like(f"by-hand-{alpha}", between(weights(BASE), weights(run), alpha))


def assert_weights(folder: str, expected: Tensors) -> None:
    written = weights(folder)
    assert written.keys() <= expected.keys() and len(written) > 30
    for name, tensor in written.items():
        np.testing.assert_allclose(tensor, expected[name], rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("alpha", [0, 0.3, 1])
def test_weights_are_between_those_of_base_and_run(run: Run, contrast: Contrast, alpha: float) -> None:
    base, other = weights(BASE), weights(run.checkpoint())
    assert contrast("merge", BASE, "simple", "-o", "mixed", "--alpha", alpha, "--dev", "none").code == 0
    assert_weights("mixed", between(base, other, alpha))
    if end := {0.0: base, 1.0: other}.get(alpha):
        assert all(tensor.tobytes() == end[name].tobytes() for name, tensor in weights("mixed").items())


def test_layers_after_the_pooling_are_merged_too(tiny: Tiny, contrast: Contrast) -> None:
    one, two = write_embedder(tiny.backbone, Path("one")), write_embedder(Path(moved("moved")), Path("two"))
    dense = next(two.glob(f"*Dense/{WEIGHTS}"))
    save_file({name: 3 * tensor for name, tensor in load_file(dense).items()}, dense)
    assert contrast("merge", "one", "two", "-o", "both", "--alpha", 0.25).code == 0
    assert_weights("both", between(weights(one), weights(two), 0.25))
    assert str(loaded("both").contract) == str(loaded("one").contract)


def eval_scores(contrast: Contrast, model: str, *files: str) -> list[float]:
    answer = contrast("eval", model, *(word for file in files for word in ("--data", file)), "--json")
    own = json.loads(answer.out)["suites"]["own"]
    return [own[file]["spearman"] for file in files]


def test_the_best_alpha_is_that_of_all_exported_models(contrast: Contrast) -> None:
    """The target is near the run, and the general score falls on the way there."""
    run = moved("run", by=0.1)
    dev, general = rated("dev.csv", at(0.7, run)), rated("general.csv", BASE, noise=1.0)
    models = {0: BASE, 0.4: at(0.4, run), 0.7: "by-hand-0.7", 1: run}
    answer = contrast("merge", BASE, run, "-o", "best", "--dev", dev, "--general", general, "--json")
    told = json.loads(answer.out)
    measured = {row["alpha"]: [100 * row[of]["after"] for of in ("own", "general")] for row in told["rows"]}
    for alpha, model in models.items():
        assert eval_scores(contrast, model, dev, general) == pytest.approx(measured[alpha], abs=1e-3)
    assert max(measured, key=lambda alpha: measured[alpha][0]) == 0.7
    keeping = {row["alpha"] for row in told["rows"] if row["keeps"]}
    worse = {row["alpha"] for row in told["rows"] if row["general"]["high"] < 0}
    assert keeping == {n / 10 for n in range(11)} - worse and worse
    best = max(keeping, key=lambda alpha: measured[alpha][0])
    assert 0 < best < 0.7 and told["best"]["alpha"] == best and told["output"] == "best"
    assert_weights("best", between(weights(BASE), weights(run), best))

    contrast("merge", BASE, run, "-o", "freely", "--dev", dev, "--general", "none")
    assert_weights("freely", between(weights(BASE), weights(run), 0.7))


def test_a_run_says_its_dev_sets_and_how_far_the_general_score_may_fall(tiny: Tiny, contrast: Contrast) -> None:
    general = rated("general.csv", BASE)
    changes = {"dev__general": general, "dev__keep_general": 4.0, "train__lr": 0.05, "train__max_steps": 8}
    tiny.trained(Path("runs/far"), "simcse", "pairs", **changes)
    told = json.loads(contrast("merge", BASE, "far", "-o", "merged", "--json").out)
    assert told["data"] == [str(tiny.dev), general]
    falls = [100 * (row["general"]["before"] - row["general"]["after"]) for row in told["rows"]]
    assert [row["keeps"] for row in told["rows"]] == [fall <= 4 for fall in falls] and max(falls) > 4


@pytest.mark.parametrize(("best", "by"), [(BASE, 0.3), ("run", 0.3), (BASE, 1e-7)], ids=["base", "run", "equal"])
def test_where_a_model_is_the_best_nothing_is_written(contrast: Contrast, best: str, by: float) -> None:
    """Of equal ones that is the one of the smaller alpha."""
    run = moved("run", by=by)
    dev = rated("dev.csv", best)
    answer = contrast("merge", BASE, run, "-o", "merged", "--dev", dev, "--general", "none")
    assert answer.code == 0 and not Path("merged").exists()
    last = answer.out.splitlines()[-1]
    assert last == f"{best} is the best, and nothing is written; to use it: contrast export {best} DEST"
    assert len(answer.out.splitlines()) == 14
    # No base is better than itself, and its row has no interval.
    assert ("the interval of the best is wider: it allows for the choice among 11" in answer.err) == (best == "run")


def test_a_run_of_another_folder_is_named_by_its_path(contrast: Contrast, run: Run) -> None:
    there = shutil.copytree("runs/simple", "there/simple")
    dev = rated("dev.csv", str(run.checkpoint()))
    answer = contrast("merge", BASE, there, "-o", "merged", "--dev", dev, "--general", "none")
    export = f"contrast export {there} DEST\n"
    assert answer.out.endswith(f"{there} is the best, and nothing is written; to use it: {export}")
    assert contrast("merge", BASE, "simple", there, "-o", "merged", "--alpha", 1, "--dev", "none").code == 0


def test_a_soup_is_written_where_no_run_alone_is_better(contrast: Contrast) -> None:
    runs = [moved("one", 1), moved("two", 2)]
    words = ("merge", BASE, *runs, "-o", "soup", "--general", "none", "--json", "--dev")
    told = json.loads(contrast(*words, rated("dev.csv", "two")).out)
    assert (told["best"]["model"], told["output"]) == ("two", None) and not Path("soup").exists()
    assert [row["model"] for row in told["rows"]] == [BASE, "one", "two", *[""] * 10]
    mean = {name: (weights("one")[name] + weights("two")[name]) / 2 for name in weights(BASE)}
    contrast(*words, rated("dev.csv", write_like("mean", mean)))
    assert_weights("soup", mean)
    assert contrast("merge", BASE, *runs, "-o", "half", "--alpha", 0.5).code == 0
    assert_weights("half", between(weights(BASE), mean, 0.5))


def test_of_equal_scores_the_better_in_general_is_taken(contrast: Contrast) -> None:
    run = moved("run", by=0.1)
    Path("dev.csv").write_text("anchor,positive\nba den fir,ba den fir ba\ngo lum sir,go lum sir go\n")
    general = rated("general.csv", at(0.6, run))
    answer = contrast("merge", BASE, run, "-o", "best", "--dev", "dev.csv", "--general", general, "--json")
    told = json.loads(answer.out)
    assert {row["own"]["after"] for row in told["rows"]} == {1.0}
    assert told["best"]["alpha"] == 0.6 and told["output"] == "best"


def test_a_typed_alpha_is_written_and_measured_between_the_two(contrast: Contrast) -> None:
    run = moved("run")
    dev, general = rated("dev.csv", at(0.5, run)), rated("general.csv", BASE)
    answer = contrast("merge", BASE, run, "-o", "merged", "--dev", dev, "--general", general, "--alpha", 0.5)
    lines = answer.out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["0", "0.5", "1"]
    header = ["α", "Spearman, dev.csv, 95 %", "Spearman, general.csv, 95 %"]
    assert re.split("  +", lines[0].strip()) == header, "with an interval in a column of its own it is too wide"
    better = (
        r"α 0.5 is better than tiny/backbone: Spearman \d+.\d\d → 100.00 \(\+.*; worse in general: Spearman 100.00 → "
    )
    assert re.search(better, answer.out)
    assert lines[2].endswith("written") and "best" not in answer.out + Path("merged/README.md").read_text()
    assert lines[-2:] == ["wrote merged", 'next: contrast query "a dog runs" "a puppy sprints" --model merged']


def test_alpha_is_not_chosen_on_the_test_split_of_a_folder(contrast: Contrast) -> None:
    folder = Path("set")
    (folder / "qrels").mkdir(parents=True)
    for split, document in {"dev": "1", "test": "2"}.items():
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\na\t{document}\t1\n")
    for part, rows in {"queries": {"a": "ba da"}, "corpus": {"1": "ba da", "2": "fa ga"}}.items():
        lines = (json.dumps({"_id": name, "text": text}) + "\n" for name, text in rows.items())
        (folder / f"{part}.jsonl").write_text("".join(lines))
    told = json.loads(contrast("merge", BASE, moved("run"), "-o", "x", "--dev", "set", "--alpha", 0.5, "--json").out)
    assert {row["own"]["after"] for row in told["rows"]} == {1.0}, "the document that has the words of the query"


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_other_software_loads_it_and_its_card_says_what_it_is(contrast: Contrast, run: Run) -> None:
    dev = rated("dev.csv", str(run.checkpoint()))
    base = Path(BASE).resolve()
    contrast("merge", base, "simple", "-o", "merged", "--alpha", 0.75, "--dev", dev, "--general", "none")
    card = Path("merged/README.md").read_text()
    assert "# merged\n" in card and "α = 0.75, of `backbone` and `simple`" in card and str(base) not in card
    assert "    contrast merge backbone simple -o DIR --alpha 0.75\n" in card
    assert "| α | Spearman, dev.csv, 95 % |  |" in card and "| 0.75 | " in card
    library = pytest.importorskip("sentence_transformers")
    vectors = library.SentenceTransformer("merged", device="cpu").encode(sentences()[:8])
    np.testing.assert_allclose(vectors, loaded("merged").encode(sentences()[:8]), atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of the other library
def test_an_adapter_is_added_to_its_base_first(tiny: Tiny, contrast: Contrast) -> None:
    pytest.importorskip("peft")
    tiny.trained(Path("runs/lora"), "simcse", "pairs", model__lora=4, train__max_steps=4)
    contrast("export", "lora", "whole")
    assert contrast("merge", BASE, "lora", "-o", "merged", "--alpha", 0.5).code == 0
    assert_weights("merged", between(weights(BASE), weights("whole"), 0.5))


def refuses(answer: Answer, what: str, hint: str) -> None:
    refused(answer, 2, what, hint)
    assert not Path("merged").exists()


def test_models_that_differ_are_refused(tiny: Tiny, contrast: Contrast) -> None:
    tiny.trained(Path("runs/cls"), "simcse", "pairs", model__pooling="cls", train__max_steps=1)
    hint = "merge models of one backbone"
    write_embedder(tiny.backbone, Path("embedder"))
    answer = contrast("merge", "embedder", "cls", "-o", "merged", "--dev", "none", "--alpha", 1)
    refuses(answer, "the pooling is mean", hint)
    write_backbone(Path("wide"), intermediate_size=80)
    refuses(contrast("merge", "wide", "cls", "-o", "merged", "--alpha", 0.5), "80×32 in wide, and 64×32", hint)
    vocabulary = json.loads(Path(shutil.copytree(BASE, "other"), "tokenizer.json").read_text())
    words = vocabulary["model"]["vocab"]
    words["ba"], words["ben"] = words["ben"], words["ba"]
    Path("other/tokenizer.json").write_text(json.dumps(vocabulary))
    for words in (("--alpha", 0.5), ()):
        refuses(contrast("merge", "other", "cls", "-o", "merged", *words), "the vocabulary is of 65 tokens", hint)
    # A bare backbone has no pooling of its own.
    assert contrast("merge", BASE, "cls", "-o", "merged", "--alpha", 0.5).code == 0
    assert loaded("merged").contract.pooling == "cls"


def test_a_run_that_its_own_backbone_differs_from_is_refused(tiny: Tiny, contrast: Contrast) -> None:
    tiny.trained(Path("runs/kept"), "simcse", "pairs", model__head="keep", train__max_steps=1)
    answer = contrast("merge", tiny.backbone, "kept", "-o", "merged", "--alpha", 0.5)
    refuses(answer, "after.0.linear.weight is missing in", "trained without --head")
    base = write_embedder(tiny.backbone, Path("embedder"))
    replace(tiny, backbone=base).trained(Path("runs/asked"), "simcse", "pairs", model__prompts="none")
    answer = contrast("merge", base, "asked", "-o", "merged", "--alpha", 0.5)
    refuses(answer, "what prompts add is", "--prompts")


def test_what_cannot_be_meant_is_refused(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    run = moved("run")
    words = ("merge", BASE, run, "-o", "merged")
    refuses(contrast(*words), "no dev data to choose alpha by", "--dev FILE or stsb")
    refuses(contrast(*words, "--columns", "anchor=a", "--alpha", 1), "--columns says", "--dev FILE")
    refuses(contrast(*words, "--general", "starter", "--alpha", 1), "--general is", "--dev FILE")
    refused(contrast("merge", BASE, run, "-o", "run", "--alpha", 1), 2, "run holds a model", "another folder")
    assert contrast(*words, "--alpha", 0.5).code == 0
    refused(contrast(*words, "--alpha", 0.7), 2, "merged exists", "--overwrite")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or Path(path) != Path("closed").absolute())
    Path("closed").mkdir()
    # Before anything is measured.
    refused(contrast("merge", BASE, run, "-o", "closed/merged", "--dev", "stsb"), 1, "cannot write", "closed")
    assert contrast(*words, "--alpha", 0.7, "--overwrite").code == 0
    assert_weights("merged", between(weights(BASE), weights(run), 0.7))
