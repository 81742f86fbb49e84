"""An export holds the same model, says what it is, and appears whole or not at all."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import contrastcli
from contrastcli.commands.export.card import about
from contrastcli.commands.export.export import export_model
from contrastcli.errors import ContrastError, UsageError
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, load_model, save_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.pooling import Normalize
from contrastcli.runs.directory import Run
from contrastcli.settings.sections import Pooling
from contrastcli.settings.setting import spell
from support.command import Contrast, refused, sentences
from support.contracts import dense, under, write_embedder
from support.kills import contents
from support.rounding import assert_near
from support.tiny import Tiny, edit_json
from support.writing import write_by

pytestmark = pytest.mark.usefixtures("quick_exports")

TEXTS = ["ba den fir", "go", "lum ka ten sir do bum fa gen", "ba " * 100, "Ba unknown", ""]


def model(tiny: Tiny, folder: Path, pooling: Pooling = "mean", *, full: bool = False) -> Path:
    """A model folder; a full one has a dense layer, unit length and a prompt."""
    encoder = load_encoder(tiny.backbone, pooling)
    if full:
        under(encoder, dense(encoder), Normalize(), prompt="go ")
    save_encoder(encoder, folder)
    return folder


def test_the_card_of_a_run_says_what_it_is_and_how_it_was_made(run: Run, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    score = {"pairs": 3108, "all": {"spearman": 61.234}, "mean": {"spearman": 59.5}, "wmean": {"spearman": None}}
    suite = {"STS12": score, "average": 70.0, "missing": {"STS13": {"what": "absent"}}, "protocol": "As published."}
    scores = {"suites": {"sts": suite}}
    run.scores_path.write_text(json.dumps(scores))
    export_model(resolve(str(run.path)), tmp_path / "dest")
    card = (tmp_path / "dest" / "README.md").read_text()
    assert yaml.safe_load(card.split("---\n")[1]) == {  # and no licence, which is the user's to choose
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-similarity", "feature-extraction", "contrast"],
    }
    config, status = run.config(), run.status()
    assert f"# {run.name}\n" in card and config.spec.paper in card and "Data: `labelled.jsonl`, 160 rows." in card
    assert status.best is not None
    assert f"{100 * status.best:.2f} at step {status.best_step}, the best of the run, with seed 42." in card
    for key, value in config.flat().items():  # a webhook is the user's secret
        shown = f"`{Path(spell(value)).name}`" if spell(value) else ""
        assert (f"| `{key}` | {shown} |\n" in card) == (not key.startswith(("alerts.", "track.")))
    assert card.index("## Scores") < card.index("## Training") < card.index("<summary>All settings</summary>")
    assert "/" not in card.partition("## Training")[2].partition("</details>")[0].replace("</summary>", "")
    assert "| Task | Spearman | Tab. 3 | Tab. 8 | Pearson | Mean | Weighted | Pairs |  |\n" in card
    assert "| STS12 | 61.23 | 74.3 | 74.2 | – | 59.50 | – | 3,108 |  |\n" in card
    assert "| STS13 | – | 84.4 | 84.5 | – | – | – | – | missing |\n" in card
    assert "| Avg. | 70.00 | 80.8 | 80.8 |  |  |  |  |  |\n\nPairSupCon, Table 3: " in card
    assert "\n\nAs published.\n" in card
    assert 'SentenceTransformer("this folder")' in card and 'contrastcli.load("this folder")' in card


def test_the_card_has_a_table_for_each_suite(run: Run, tmp_path: Path) -> None:
    transfer = {"MR": {"rows": 10662, "accuracy": 75.0}, "MRPC": {"rows": 5801, "accuracy": 70.25, "f1": 80.5}}
    suites = {
        "transfer": transfer | {"average": None, "average8": None, "missing": {}, "protocol": "As SentEval.\nMR: cut."},
        "geometry": {"STS-B": {"pairs": 338, "alignment": 0.214, "uniformity": None, "pca": [[0.1, 0.2]]}},
        "fewshot": {"CR": {"mean": 60.25, "sd": 1.5, "accuracies": [1, 2], "rows": 3775}},
        "mteb": {"STS12": {"metric": "cosine_spearman", "score": 70.0}},
        "of a later version": {"x": {"rows": 1}},
    }
    run.scores_path.write_text(json.dumps({"suites": suites}))
    export_model(resolve(str(run.path)), tmp_path / "dest")
    card = (tmp_path / "dest" / "README.md").read_text()
    assert "## Scores: transfer, with seed 42\n\n| Task | Accuracy | Tab. 7 | F1 | Rows |  |\n" in card
    assert "\n\nAs SentEval.\n\nMR: cut.\n\n" in card
    assert "| MR | 75.00 | 82.7 | – | 10,662 |  |\n| MRPC | 70.25 | 74.3 | 80.50 | 5,801 |  |\n" in card
    assert "| STS-B | 0.21 | – | – | – | 338 | – |\n" in card
    assert "| Avg. | 72.62 | 86.8 |  |  | 2 of 7 |\n| Avg. of 8 | 72.62 | – |  |  | 2 of 8 |\n" in card
    assert "| CR | 60.25 | 81.8 ± 2.6 | 1.50 | 3,775 |\n" in card
    assert r"| STS12 | 70.00 | cosine\_spearman | – |" in card
    assert "later" not in card


def test_the_card_says_how_a_text_becomes_a_vector(tiny: Tiny, tmp_path: Path) -> None:
    config = model(tiny, tmp_path / "mine", "mean-no-cls", full=True) / "config.json"
    edit_json(config, _name_or_path="/home/me/secret")
    export_model(resolve(str(config.parent)), tmp_path / "dest")
    assert "secret" not in (tmp_path / "dest" / "config.json").read_text(), "where its backbone was"
    card = (tmp_path / "dest" / "README.md").read_text()
    phrases = ["# mine\n", "`mean-no-cls`", "all tokens but CLS", "Tanh", "unit length", "`go `", "32 tokens", "7 dim"]
    assert [phrase for phrase in phrases if phrase not in card] == []
    assert "## Training" not in card and "## Scores" not in card
    assert "model.similarity(*model.encode([" in card
    export_model(resolve(str(write_embedder(tiny.backbone, tmp_path / "asking"))), tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert 'similarity(model.encode_query("a dog runs"), model.encode_document("a puppy sprints"))' in card
    prompts = {"prompts": {"query": "a: ", "document": "a: "}}
    (tmp_path / "asking" / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    export_model(resolve(str(tmp_path / "asking")), tmp_path / "one")
    assert "Prefixes: `a: ` for a query or a document." in (tmp_path / "one" / "README.md").read_text()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("/home/ada/My data/nli.tsv", "nli.tsv"),
        ("/data/a.txt, /data/b.txt", "a.txt, b.txt"),
        ("/teachers/one:cls=2,/teachers/two", "one:cls=2,two"),
        (r"C:\Users\ada\nli.tsv", "nli.tsv"),
        ("~/data/nli.tsv", "nli.tsv"),
        ("/data/nli/", "nli/"),
        ("senteval:/data/senteval", "senteval:senteval"),
        ("hf:acme/pairs@v1/train.csv?split=a/b", "hf:acme/pairs@v1/train.csv?split=a/b"),
        ("data/nli.tsv", "data/nli.tsv"),
    ],
)
def test_the_card_shows_no_folders_of_this_machine(tiny: Tiny, tmp_path: Path, value: str, shown: str) -> None:
    parts = about(tiny.run(tmp_path / "one", data__train=value)).parts
    assert f"| `data.train` | `{shown}` |\n" in "".join(parts)


def test_an_empty_folder_is_filled_and_an_export_replaced_on_request(tiny: Tiny, tmp_path: Path) -> None:
    dest = tmp_path / "new" / "dest"
    dest.mkdir(parents=True)
    others = [dest.with_name(name) / "thesis.tex" for name in (".dest.draft", ".dest.former")]
    for other in others:
        other.parent.mkdir()
        other.write_text("years")
    export_model(resolve(str(model(tiny, tmp_path / "one", "cls", full=True))), dest)
    export_model(resolve(str(model(tiny, tmp_path / "two", "mean-no-cls"))), dest, overwrite=True)
    assert load_encoder(dest).contract.pooling == "mean-no-cls"
    assert not (dest / "2_Dense").exists()
    assert sorted(dest.parent.iterdir()) == [*(other.parent for other in others), dest]
    assert all(other.exists() for other in others), "folders of such names are another's"


def test_what_no_export_has_written_is_never_replaced(contrast: Contrast, run: Run) -> None:
    assert contrast("export", "simple", "mine").code == 0
    for name in ("thesis.tex", "2_Dense/notes.txt", ".git/HEAD", "modules.json~"):
        other = Path("mine", name)
        other.parent.mkdir(exist_ok=True)
        other.write_text("years")
        before = contents([Path("mine")])
        for words in ((), ("--overwrite",)):
            answer = contrast("export", "simple", "mine", *words)
            refused(answer, 2, f"mine holds {name}, which no export has written", "choose another folder")
            assert "--overwrite" not in answer.err
            refused(contrast("export", "simple", other, *words), 2, f"{other} is a file")
        assert contents([Path("mine")]) == before
        other.unlink()
    refused(contrast("export", "simple", "."), 2, ". holds mine/", "another folder")


def test_a_model_of_another_program_and_a_checkpoint_are_never_replaced(contrast: Contrast, run: Run) -> None:
    checkpoint = run.checkpoint("best")
    shutil.rmtree(checkpoint / "training", ignore_errors=True)
    (checkpoint / "checksums.json").unlink()
    for folder in (checkpoint, Path("other")):
        if folder != checkpoint:
            shutil.copytree(checkpoint, folder)
            (folder / "README.md").write_text("---\ntags: [sentence-transformers]\n---\n# My model\n")
        before = contents([folder])
        refused(contrast("export", "simple", folder, "--overwrite"), 2, "that no export has written", "another folder")
        assert contents([folder]) == before


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [False, True])
def test_of_several_exports_to_one_folder_one_wins_whole(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    # Its output is silenced, which threads cannot do at once.
    monkeypatch.setattr("contrastcli.commands.export.formats.find_spec", lambda name: None)
    poolings: list[Pooling] = ["cls", "mean-no-cls", "first-last"]
    sources = [resolve(str(model(tiny, tmp_path / pooling, pooling))) for pooling in poolings]
    for number in range(4):
        dest = tmp_path / str(number)
        if overwrite:
            export_model(resolve(str(tiny.backbone)), dest)

        with ThreadPoolExecutor(3) as pool:
            exports = [pool.submit(export_model, source, dest, overwrite=overwrite) for source in sources]
        errors = [one.exception() for one in exports]
        winners = [pooling for pooling, error in zip(poolings, errors, strict=True) if error is None]
        assert (len(winners) == 1 or (overwrite and winners)) and load_encoder(dest).contract.pooling in winners
        losers = [error for error in errors if error]
        assert all(isinstance(one, ContrastError) and "another folder" in one.hint for one in losers), losers
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_export_does_not_replace_what_came_while_it_worked(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, dest = resolve(str(model(tiny, tmp_path / "source"))), tmp_path / "dest"

    def meanwhile(encoder: SentenceEncoder, folder: Path) -> None:
        save_encoder(encoder, folder)
        if not dest.exists():
            save_encoder(encoder, dest)
        (dest / "notes.txt").write_text("mine")

    write_by(monkeypatch, meanwhile)
    with pytest.raises(UsageError, match="dest holds notes"):
        export_model(source, dest)
    write_by(monkeypatch, save_encoder)
    shutil.rmtree(dest)
    export_model(source, dest)
    write_by(monkeypatch, meanwhile)
    with pytest.raises(UsageError, match=r"dest holds notes\.txt"):
        export_model(source, dest, overwrite=True)
    assert (dest / "notes.txt").read_text() == "mine" and load_encoder(dest).width == 32


@pytest.mark.parametrize("pooling", ["cls", "mean-no-cls", "last", "last-mean", "mask"])
def test_onnx_computes_the_same_for_batches_of_any_size(tiny: Tiny, tmp_path: Path, pooling: Pooling) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    tokenizers = pytest.importorskip("tokenizers")
    source, dest = model(tiny, tmp_path / "source", pooling, full=pooling == "cls"), tmp_path / "dest"
    export_model(resolve(str(source)), dest, "onnx")
    session = runtime.InferenceSession(str(dest / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [i.shape for i in session.get_inputs()] == [["batch", "length"]] * 2
    assert [o.shape for o in session.get_outputs()] == [["batch", load_model(resolve(str(source))).width]]
    tokenizer = tokenizers.Tokenizer.from_file(str(dest / "tokenizer.json"))  # all that a user of the folder has
    tokenizer.enable_padding(pad_id=0)
    tokenizer.enable_truncation(32)
    prompt = {"cls": "go ", "mask": 'This sentence of "'}.get(pooling, "")
    for texts in (TEXTS[:1], TEXTS[1:3], TEXTS, TEXTS[3:4]):
        encoded = tokenizer.encode_batch([prompt + text for text in texts])
        feed = {"input_ids": [e.ids for e in encoded], "attention_mask": [e.attention_mask for e in encoded]}
        (vectors,) = session.run(None, {name: np.array(rows, dtype=np.int64) for name, rows in feed.items()})
        assert_near(vectors, load_encoder(source).encode(texts))
    assert "`model.onnx`" in (dest / "README.md").read_text() and (dest / "config.json").is_file()


def test_a_run_is_exported_by_its_best_checkpoint_without_what_a_resume_needs(contrast: Contrast, run: Run) -> None:
    refused(contrast("export", "nothing", "out/mine"), 3, "the model 'nothing'")
    assert not Path("out").exists()
    answer = contrast("export", "simple", "out/mine")
    assert (answer.code, answer.out) == (0, "out/mine\n")
    assert "contrast query" in answer.err and "--model out/mine" in answer.err
    best, exported = load_encoder(run.checkpoint("best")), contrastcli.load(Path("out/mine"))
    assert np.array_equal(best.encode(sentences()), exported.encode(sentences()))
    files = {"config.json", "model.safetensors", "modules.json", "tokenizer.json", "README.md"}
    assert files <= {path.name for path in Path("out/mine").iterdir()}
    assert not list(Path("out/mine").rglob("*training*"))
    assert contrast("export", "simple", "out/mine").code == 2
    assert contrast("export", "simple", "out/mine", "--overwrite").code == 0
