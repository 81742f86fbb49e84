"""Every format of an export is encoded in its own software and compared with the model before it takes its place."""

import importlib.util
import json
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import contrastcli
from contrastcli.commands.export.export import export_model
from contrastcli.commands.export.formats import FORMATS
from contrastcli.errors import RunError, UsageError
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.metrics import cosine
from contrastcli.model.pooling import Normalize
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Format
from support.command import Contrast, failed, refused, sentences
from support.contracts import under, write_embedder
from support.families import write_family
from support.rounding import assert_near
from support.tiny import Tiny, train
from support.writing import Write, write_by

KINDS: tuple[Format, ...] = get_args(Format)
FILES = {kind: target.graph.replace(".xml", ".bin") or "model.safetensors" for kind, target in FORMATS.items()}
"""The file with the weights."""

pytestmark = pytest.mark.filterwarnings("ignore")  # of the other libraries


@pytest.fixture(autouse=True)
def installed(request: pytest.FixtureRequest) -> None:
    """Skip a format whose packages are not there."""
    kind = request.node.callspec.params.get("kind") if hasattr(request.node, "callspec") else None
    if kind and (extra := FORMATS[kind].extra):
        pytest.importorskip(extra)
        pytest.importorskip(FORMATS[kind].software)


def spoil_weights(encoder: SentenceEncoder, folder: Path, write: Write) -> None:
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in encoder.state_dict().values():
            tensor += 0.3 * torch.randn(tensor.shape, generator=draw)
    write(encoder, folder)
    encoder.load_state_dict(before)


def cut_texts(encoder: SentenceEncoder, folder: Path, write: Write) -> None:
    whole, encoder.max_length = encoder.max_length, 4
    write(encoder, folder)
    encoder.max_length = whole


def cut_beginnings(encoder: SentenceEncoder, folder: Path, write: Write) -> None:
    """As another library may, of texts over the limit, of which the data here have none."""
    encoder.tokenizer._side = "left"
    write(encoder, folder)
    encoder.tokenizer._side = "right"


def truncate(encoder: SentenceEncoder, folder: Path, write: Write) -> None:
    write(encoder, folder)
    for file in (folder / name for name in set(FILES.values()) if (folder / name).exists()):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", [spoil_weights, cut_texts, cut_beginnings, truncate])
def test_a_wrong_export_of_each_kind_is_refused(
    contrast: Contrast,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    kind: Format,
    damage: Callable[[SentenceEncoder, Path, Write], None],
) -> None:
    write = FORMATS[kind].write
    write_by(monkeypatch, lambda encoder, folder: damage(encoder, folder, write), kind)
    answer = contrast("export", "simple", "out/mine", "--format", kind)
    failed(answer, 1, "fails on what was written" if damage is truncate else "the cosine of a text before and after is")
    assert not list(Path("out").iterdir())
    if damage is cut_texts and kind == "sentence-transformers":
        assert contrast("export", "simple", "out/mine", "--format", kind, "--min-cosine", "-1").code == 0


FAIL = Mock(side_effect=RuntimeError("iostream error"))
CANNOT = "cannot be written: iostream error"


@pytest.mark.parametrize(
    ("kind", "end", "code", "what", "hint"),
    [
        ("sentence-transformers", FAIL, 1, CANNOT, "make room on"),
        ("onnx", FAIL, 1, f"the format onnx {CANNOT}", "use --format sentence-transformers, or"),
        ("sentence-transformers", partial(signal.raise_signal, signal.SIGTERM), 75, "preempted", "nothing was changed"),
        (
            "sentence-transformers",
            partial(signal.raise_signal, signal.SIGINT),
            130,
            "interrupted",
            "nothing was changed",
        ),
    ],
)
def test_an_export_that_fails_or_is_ended_leaves_nothing(
    contrast: Contrast,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    kind: Format,
    end: Callable[[], None],
    code: int,
    what: str,
    hint: str,
) -> None:
    def fail(encoder: SentenceEncoder, folder: Path) -> None:
        save_encoder(encoder, folder)
        end()

    write_by(monkeypatch, fail, kind)
    refused(contrast("export", "simple", "out/mine", "--format", kind), code, what, hint)
    assert not list(Path("out").iterdir())


@pytest.mark.parametrize("kind", ["onnx"])
def test_a_model_has_a_graph_also_where_transformers_makes_its_masks_by_vmap(tmp_path: Path, kind: Format) -> None:
    source = resolve(str(write_family("embedding-gemma", tmp_path / "gemma")))
    assert (export_model(source, tmp_path / "out", kind) / FORMATS[kind].graph).is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_tells_what_was_measured_in_its_own_software(contrast: Contrast, tiny: Tiny, kind: Format) -> None:
    train(tiny.run(Path("runs/simple"), train__max_steps=2, dev__general=str(tiny.data["scored"])))
    answer = contrast("export", "simple", "out", "--format", kind)
    texts, own, general = [line for line in answer.err.splitlines() if not line.startswith("progress")][:3]
    software = FORMATS[kind].software.replace("_", "-")
    if not importlib.util.find_spec(FORMATS[kind].software):
        software = "contrastcli"
    assert answer.code == 0 and f"texts in {software} " in texts and "at most" in texts
    assert own.startswith("Spearman ") and own.endswith("dev.jsonl") and general.endswith("scored.jsonl")
    card = Path("out/README.md").read_text()
    assert f"    {texts}\n" in card and "/" not in card.partition("## Check")[2].partition("\n## ")[0]
    assert card.index("## Check") < card.index("## Training")
    assert ("What follows is of the run's model" in card) == (kind in ("onnx-int8", "static"))
    assert ("contrast query" in answer.err) == (not FORMATS[kind].graph)


def test_software_that_another_package_brings_has_the_name_of_that(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As onnxruntime-gpu brings onnxruntime."""
    brought = {module: ["pytest"] for module in ("sentence_transformers", "contrastcli")}
    monkeypatch.setattr("contrastcli.commands.export.check.packages_distributions", lambda: brought)
    answer = contrast("export", "tiny/backbone", "out")
    assert answer.code == 0 and f" texts in pytest {pytest.__version__}, " in answer.err


@pytest.mark.parametrize("kind", ["onnx", "openvino"])
def test_prompts_of_queries_and_documents_are_checked_too(contrast: Contrast, tiny: Tiny, kind: Format) -> None:
    embedder = write_embedder(tiny.backbone, Path("embedder").absolute())
    train(tiny.run(Path("runs/mine"), "simcse", "pairs", train__max_steps=1, model__backbone=str(embedder)))
    assert contrast("export", "mine", "out", "--format", kind).code == 0
    encode = FORMATS[kind].read(Path("out"), load_encoder(embedder))
    for role in (None, "query", "document"):
        assert_near(encode(sentences(), kind=role), contrastcli.load("runs/mine").encode(sentences(), role))


def test_the_scores_before_a_cut_are_those_of_the_whole_model(contrast: Contrast, run: Run) -> None:
    answers = [contrast("export", "simple", place, *dim) for place, dim in (("all", ()), ("cut", ("--dim", "4")))]
    whole, cut = (re.findall(r"Spearman (\S+) → (\S+)", answer.err)[0] for answer in answers)
    assert whole[0] == whole[1] == cut[0] != cut[1]
    # The run's own scores are not those of what was cut.
    checked, _, of_the_run = Path("cut/README.md").read_text().partition("\nWhat follows is of the run's model")
    assert f"→ {cut[1]}" in checked and "## Training" in of_the_run


@pytest.mark.parametrize("name", ["query", "document"])
def test_a_kind_of_text_that_others_read_without_its_prompt_is_found(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("sentence_transformers")

    def write(encoder: SentenceEncoder, folder: Path) -> None:
        save_encoder(encoder, folder)
        file = folder / "config_sentence_transformers.json"
        settings = json.loads(file.read_text())
        file.write_text(json.dumps(settings | {"prompts": settings["prompts"] | {name: ""}}))

    source = resolve(str(write_embedder(tiny.backbone, tmp_path / "source")))
    export_model(source, tmp_path / "right")
    write_by(monkeypatch, write)
    with pytest.raises(RunError, match="the cosine of a text before and after"):
        export_model(source, tmp_path / "wrong")


def test_a_graph_cannot_leave_prompts_out(tiny: Tiny, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    save_encoder(under(load_encoder(tiny.backbone), prompt="go ", include_prompt=False), tmp_path / "source")
    with pytest.raises(UsageError, match="leaves prompts out"):
        export_model(resolve(str(tmp_path / "source")), tmp_path / "dest", "onnx")
    assert not (tmp_path / "dest").exists()


def test_int8_is_near_and_no_nearer_than_it_says(contrast: Contrast, run: Run) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    answer = contrast("export", "simple", "out", "--format", "onnx-int8", "--min-cosine", "1")
    failed(answer, 1, "and 1 is asked for", "--min-cosine 0.9")
    assert contrast("export", "simple", "out", "--format", "onnx-int8").code == 0
    assert not Path("out/whole.onnx").exists()
    model = contrastcli.load("runs/simple")
    encode = FORMATS["onnx-int8"].read(Path("out"), model)
    vectors = encode(sentences())
    assert cosine(vectors, model.encode(sentences())).min() < 0.99999
    # As of a query that is served, whose activations nothing but itself scales.
    assert all(np.array_equal(vectors[n], encode([text])[0]) for n, text in enumerate(sentences()[:9]))
    assert "    texts were encoded one at a time" in Path("out/README.md").read_text()


def test_what_is_shown_as_one_is_one(contrast: Contrast) -> None:
    pytest.importorskip("sentence_transformers")
    answer = contrast("export", "tiny/backbone", "out", "--min-cosine", "1")
    assert answer.code == 0, answer.err


def test_vectors_that_lost_their_unit_length_are_refused(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_encoder(under(load_encoder(tiny.backbone), Normalize()), tmp_path / "source")

    def forget(encoder: SentenceEncoder, folder: Path) -> None:
        contract = encoder.contract
        encoder.put_under(replace(contract, after=torch.nn.Sequential()))
        save_encoder(encoder, folder)
        encoder.put_under(contract)

    write_by(monkeypatch, forget)
    with pytest.raises(RunError, match="not of unit length"):
        export_model(resolve(str(tmp_path / "source")), tmp_path / "dest")


def test_missing_data_of_a_run_are_told_and_the_starter_s_texts_do(contrast: Contrast, run: Run, tiny: Tiny) -> None:
    lines = run.config_path.read_text().replace(str(tiny.dev), "gone.jsonl")
    run.config_path.write_text(lines)
    answer = contrast("export", "simple", "out")
    assert answer.code == 0 and "without dev data: there is no file or folder gone.jsonl" in answer.err
    assert "Spearman" not in answer.err and "500 texts" in answer.err


@pytest.mark.parametrize("extra", ["onnx", "openvino"])
def test_an_export_without_its_packages_says_how_to_get_them(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    monkeypatch.setattr("contrastcli.commands.export.formats.find_spec", lambda name: None)
    answer = contrast("export", "simple", "out", "--format", extra)
    refused(answer, 2, "packages that are missing", f"contrastcli[{extra}]")
    assert not Path("out").exists()


def test_without_sentence_transformers_the_folder_is_read_by_contrast(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("formats", "check"):
        monkeypatch.setattr(f"contrastcli.commands.export.{place}.find_spec", lambda name: None)
    assert f"texts in contrastcli {contrastcli.__version__}" in contrast("export", "simple", "out").err


def test_a_static_export_is_a_smaller_model(contrast: Contrast, run: Run) -> None:
    answer = contrast("export", "simple", "out", "--format", "static", "--dim", "6")
    assert answer.code == 0 and ", vectors of 6 numbers: 1 − cosine" in answer.err
    assert contrastcli.load("out").encode(sentences()).shape == (len(sentences()), 6)
    assert "\nA static model: each token has one vector" in Path("out/README.md").read_text()
    refused(contrast("export", "simple", "x", "--format", "static", "--dim", "33"), 2, "32 numbers", "at most 32")
    failed(contrast("export", "out", "x", "--format", "static"), 2, "out is a static model", "sentence-transformers")
    pytest.importorskip("onnxruntime")
    assert contrast("export", "out", "graph", "--format", "onnx").code == 0
    encode = FORMATS["onnx"].read(Path("graph"), load_encoder(Path("out")))
    assert_near(encode(sentences()), contrastcli.load("out").encode(sentences()))
