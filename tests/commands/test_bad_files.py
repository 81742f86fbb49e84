"""Damaged, hostile and odd files: each ends in two lines, and none hangs, aborts or takes the machine's memory."""

import gzip
import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from datasets import Dataset
from safetensors.torch import load_file, save_file

import contrastcli
from contrastcli.commands import encode
from contrastcli.data import formats, tokens
from contrastcli.data.tokens import Tokenizer
from contrastcli.errors import DataError
from contrastcli.model.folder import load_encoder, save_encoder
from contrastcli.runs import checksums
from contrastcli.runs.directory import Run
from contrastcli.runs.event_file import read_lines
from contrastcli.runs.status import this_process
from contrastcli.show.format import as_json, as_json_lines
from support.command import COMMAND, MODEL, SENTENCES, Contrast, failed, refused, train
from support.damage import Thing
from support.damage import put as replace
from support.tiny import Tiny

Change = Callable[[Path], object]


@pytest.fixture
def model(tiny: Tiny, contrast: Contrast) -> Path:
    """A copy of the tiny backbone with sentence-transformers' modules, in model/."""
    save_encoder(load_encoder(tiny.backbone), Path("model"))
    return Path("model")


def put(path: Path, **values: object) -> None:
    """Set keys of a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def with_id(path: Path, token_id: int) -> None:
    """Give a token of the tokenizer another id."""
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["ba"] = token_id
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))


def with_path(path: Path, place: str) -> None:
    modules = json.loads((path / "modules.json").read_text())
    modules[1]["path"] = place
    (path / "modules.json").write_text(json.dumps(modules))


def without_tokenizer(path: Path) -> None:
    for file in path.glob("*tok*.json"):
        file.unlink()


MODELS: dict[str, tuple[Change, str]] = {
    "a million million positions": (lambda m: put(m / "config.json", max_position_embeddings=10**12), "`$.positions`"),
    "a negative width": (lambda m: put(m / "config.json", hidden_size=-8), "`$.width`"),
    "half a layer": (lambda m: put(m / "config.json", num_hidden_layers=1.5), "`$.layers`"),
    "no heads": (lambda m: put(m / "config.json", num_attention_heads=None), "`$.heads`"),
    "heads that do not divide the width": (lambda m: put(m / "config.json", num_attention_heads=5), "5 heads"),
    "too many parameters": (lambda m: put(m / "config.json", intermediate_size=1 << 24, hidden_size=1 << 20), "param"),
    "a config that is a list": (lambda m: (m / "config.json").write_text("[" * 100_000), "is malformed"),
    "an id beyond the vocabulary": (lambda m: with_id(m, 5_000), "has the id 5000, the model 65 tokens"),
    "a huge id": (lambda m: with_id(m, 2**40), "tokenizer.json is malformed"),
    "a negative id": (lambda m: with_id(m, -1), "tokenizer.json is malformed"),
    "no limit of tokens below 1": (lambda m: put(m / "sentence_bert_config.json", max_seq_length=-1), "-1 tokens"),
    "a limit that is text": (lambda m: put(m / "sentence_bert_config.json", max_seq_length="32"), "'32' tokens"),
    "a module elsewhere": (lambda m: with_path(m, "../../etc"), "leaves the folder"),
    "no tokenizer.json": (lambda m: (m / "tokenizer.json").unlink(), "or (3) an equivalent slow tokenizer class"),
    "no tokenizer": (without_tokenizer, "has no tokenizer.json or vocab.txt"),
    "a tokenizer that is a pipe": (lambda m: replace(Thing.PIPE, m / "tokenizer_config.json"), "is not a regular file"),
}


@pytest.mark.parametrize(("change", "what"), MODELS.values(), ids=MODELS)
def test_a_model_folder_that_is_damaged_is_refused(contrast: Contrast, model: Path, change: Change, what: str) -> None:
    change(model)
    refused(contrast("query", "a", "b", "--model", "model"), 3, what)


def test_tokens_that_were_added_to_the_tokenizer_alone_are_to_be_added_to_the_model(
    contrast: Contrast, model: Path
) -> None:
    with_id(model, 65)
    refused(contrast("query", "a", "b", "--model", "model"), 3, "has the id 65", "resize_token_embeddings")


@pytest.mark.parametrize("limit", [1e30, 10**30])
def test_a_tokenizer_without_a_limit_has_that_of_the_model(contrast: Contrast, model: Path, limit: object) -> None:
    (model / "sentence_bert_config.json").unlink()
    put(model / "tokenizer_config.json", model_max_length=limit)
    assert contrast("query", "a", "b", "--model", "model").code == 0


RUNS: dict[str, tuple[Change, str]] = {
    "events that are a folder": (lambda r: replace(Thing.FOLDER, r / "events.jsonl"), "events.jsonl is a folder"),
    "events that are a pipe": (lambda r: replace(Thing.PIPE, r / "events.jsonl"), "is not a regular file"),
    "settings that are nested deeply": (lambda r: (r / "config.toml").write_text("a=" + "[" * 9_999), "is not TOML"),
    "checkpoints that are nested deeply": (lambda r: (r / "checkpoints.json").write_text("[" * 9_999), "is malformed"),
    "a budget below 0": (lambda r: put_position(r, token_budget=-1), "position.json is malformed"),
    "a budget without end": (lambda r: put_position(r, token_budget=10**30), "position.json is malformed"),
    "a circle of links": (lambda r: replace(Thing.CIRCLE, r / "checkpoints.json"), "cannot be read"),
}


def put_position(run: Path, **values: object) -> None:
    """Other values in the position of the last checkpoint, with their checksum."""
    training = max(run.glob("checkpoints/*/training"))
    put(training / "position.json", **values)
    checksums.replace(training, "position.json", (training / "position.json").read_bytes())


@pytest.mark.parametrize(("change", "what"), RUNS.values(), ids=RUNS)
def test_a_run_that_is_damaged_is_refused(contrast: Contrast, run: Run, change: Change, what: str) -> None:
    change(run.path)
    answer = contrast("train", "--resume", "simple", "--max-steps", "6", "--no-ui")
    assert answer.code in (2, 3)
    failed(answer, answer.code, what)
    assert "simple" in contrast("runs").out and "simple" in contrast("runs", "list", "--json").out


def test_an_impossible_exit_code_is_no_event_and_a_heartbeat_without_a_process_counts_by_its_time(
    contrast: Contrast, run: Run
) -> None:
    with run.events_path.open("a") as file:
        file.write('{"event":"done","step":9,"status":"failed","code":70000,"message":"","hint":""}\n')
    assert contrast("watch", "simple").code == 0
    for pid in (-1, 0, 2**40, "1", None):
        run.alive_path.write_text(json.dumps(msgspec.to_builtins(this_process()) | {"pid": pid}))
        assert "finished" in contrast("runs", "show", "simple").out


LONG = b"ba " * 500_000


def test_a_line_without_end_is_refused(contrast: Contrast) -> None:
    Path("long.txt").write_bytes(b"ba en\n" + LONG)
    words = ("encode", "long.txt", "-o", "out.npy", *MODEL)
    refused(contrast(*words), 3, "long.txt, line 2: longer than 1,000,000 bytes")
    refused(contrast("query", "-", *MODEL, stdin=LONG), 3, "stdin, line 1: longer than")
    refused(contrast("encode", "-", "-o", "out.npy", *MODEL, stdin=LONG), 3, "stdin, line 1: longer than")
    Path("zero.txt").symlink_to("/dev/zero")
    refused(contrast("encode", "zero.txt", "-o", "out.npy", *MODEL), 3, "zero.txt is not a regular file")


QUOTED = b'sentence\nba\n"' + b"ba\n" * 400_000
WIDE = [f"c{number}" for number in range(4_000)]
LARGE: dict[str, tuple[str, bytes, str]] = {
    "a quote that is not closed": ("rows.csv", QUOTED, "not closed within 1,000,000 characters"),
    "a header of a column twice": ("rows.csv", ",".join([*WIDE, "c3999"]).encode(), "'c3999' occurs twice"),
    "a header of many columns": ("rows.tsv", "\t".join(WIDE).encode() + b"\n" + b"a\t" * 3_999 + b"a", "'c0', 'c1', "),
    "zeros, compressed": ("rows.jsonl.gz", gzip.compress(bytes(1 << 24)), "longer than 1,000,000 bytes"),
    "a long cell": ("rows.json", b'[{"text": "a"}, {"text": "%s"}]' % (b"ba " * 400_000), "row 2: the sentence in the"),
}


@pytest.mark.parametrize(("name", "data", "what"), LARGE.values(), ids=LARGE)
def test_large_data_is_refused_soon(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, what: str
) -> None:
    monkeypatch.setattr(formats, "UNPACKED_BYTES", 1_000_000)
    Path(name).write_bytes(data)
    answer = contrast(*train("--data", name, "--dry-run"))
    refused(answer, 3, what)
    assert len(answer.err) < 2_000


@pytest.mark.parametrize("columns", [1, 500])
def test_a_small_parquet_of_many_values_is_refused(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(formats, "UNPACKED_BYTES", 1_250_000)
    monkeypatch.setattr(formats, "MOST_EXPANSION", 1)
    rows = 200_000 // columns
    cells = dict.fromkeys(WIDE[1:columns], ["a"] * rows)
    Dataset.from_dict({"sentence": [f"ba {row}" for row in range(rows)], **cells}).to_parquet("rows.parquet")
    words = train(*SENTENCES[:2], "--data", "rows.parquet", "--dry-run")
    refused(contrast(*words), 3, f"rows of {columns:,} columns would fill the disk", "data.limit")
    assert contrast(*words, "--set", "data.limit=50").code == 0


def test_sentences_without_end_are_refused(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "STDIN_BYTES", 100_000)
    words = ("encode", "-", "-o", "out.npy", *MODEL)
    refused(contrast(*words, stdin=b"y\n" * 5_000), 3, "stdin, line 1516: its lines would fill the memory")
    assert contrast(*words, stdin=b"y\n" * 500).code == 0


def test_long_texts_are_tokenised_one_after_the_other(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, texts = Tokenizer(tiny.backbone), ["ba en " * length for length in (1, 50, 2, 0, 90, 3)]
    whole = tokenizer.encode(texts, 16)
    monkeypatch.setattr(tokens, "CHARACTERS", 100)
    assert tokenizer.encode(texts, 16) == whole and max(map(len, whole)) == 16


EVENTS = {
    "of kinds that are not known": b'{"event":"martian","step":1}\n' * 8_000 + b'{"step":1}\n' * 250_000,
    "in one line": b'{"event":"note","step":1,"text":"' + b"a" * 2_700_000 + b'"}\n',
    "of NUL bytes": bytes(2_700_000),
}


@pytest.mark.parametrize("events", EVENTS.values(), ids=EVENTS)
def test_events_without_an_event_are_passed_over(contrast: Contrast, run: Run, events: bytes) -> None:
    shutil.copytree(run.path, "runs/other")
    with run.events_path.open("ab") as file:
        file.write(events)
    began = time.process_time()
    assert contrast("runs").out.count("finished  4/4") == 2
    assert "best dev" in contrast("compare", "simple", "other").out
    watched = contrast("watch", "simple", "--json").out.splitlines()
    assert [json.loads(line)["event"] for line in watched][-1] == "done"
    lines, position = [b""], 0
    while lines:  # as the app reads
        lines, position = read_lines(run.events_path, position, 1 << 17)
    assert position >= 2_500_000 and time.process_time() - began < 4


def test_a_long_list_of_objects_on_one_line_is_read(contrast: Contrast) -> None:
    Path("rows.json").write_text(json.dumps([{"sentence": f"ba en {number}"} for number in range(60_000)]))
    assert Path("rows.json").stat().st_size > 1_500_000
    answer = contrast(*train(*SENTENCES[:2], "--data", "rows.json", "--dry-run"))
    assert answer.code == 0 and "60,000" in answer.out


def test_a_terminal_that_lacks_a_character_gets_it_escaped(run: Run) -> None:
    shutil.copytree(run.path, "runs/simplé")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    answer = subprocess.run([*COMMAND, "runs"], capture_output=True, env=environment, check=False)
    assert answer.returncode == 0 and rb"simpl\xe9" in answer.stdout and answer.stderr == b""
    answer = subprocess.run([*COMMAND, "runs", "list", "--json"], capture_output=True, env=environment, check=False)
    assert {run["name"] for run in json.loads(answer.stdout)} == {"simple", "simplé"}


def test_a_divergence_before_the_first_checkpoint_promises_none(contrast: Contrast, model: Path) -> None:
    weights = load_file(model / "model.safetensors")
    save_file({name: tensor * math.nan for name, tensor in weights.items()}, model / "model.safetensors")
    answer = contrast(*train("--data", "tiny/labelled.jsonl", "--dev", "none", "--no-ui", "--backbone", "model"))
    assert answer.code == 4 and "nothing had been saved yet" in answer.err


@pytest.fixture
def broken(model: Path) -> None:
    """A weight of the word `ba` of that model is not a number."""
    weights = load_file(model / "model.safetensors")
    word = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]["ba"]
    name = next(name for name in weights if name.endswith("word_embeddings.weight"))
    weights[name][word, 0] = math.nan
    save_file(weights, model / "model.safetensors")
    Path("corpus.txt").write_text("da fa\nba da\nfa ba\n")
    Path("pairs.csv").write_text("anchor,positive\nda,fa\nga,da ba\nka,la\n")


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("query da,ba --json --model model", "ba"),
        ("query da --corpus corpus.txt --json --model model", "ba da"),
        ("encode corpus.txt -o v.npy --model model", "ba da"),
        ("eval model --data pairs.csv --json", "da ba"),
        ("mine pairs.csv -o m.csv --model model", "da ba"),
        ("compare tiny/backbone model --bootstrap --dev pairs.csv", "da ba"),
    ],
)
def test_the_first_text_without_a_vector_is_named(contrast: Contrast, words: str, text: str) -> None:
    answer = contrast(*words.replace(",", " ").split())
    failed(answer, 3, f"the vectors of model are not finite numbers, the first of them that of '{text}'", "model")
    assert not Path("v.npy").exists() and not Path("m.csv").exists()


@pytest.mark.usefixtures("broken")
def test_texts_whose_vectors_are_numbers_are_answered(contrast: Contrast) -> None:
    assert contrast("query", "da", "fa", "--model", "model").code == 0
    with pytest.raises(DataError, match="the vectors of model are not finite"):
        contrastcli.load("model").encode(["ba"])


def test_json_is_json_whatever_is_printed() -> None:
    values = {"nan": float("nan"), "infinite": [float("inf"), 1.5], "text": "é"}
    known = {"nan": None, "infinite": [None, 1.5], "text": "é"}
    assert json.loads(as_json(values, 0)) == json.loads(as_json_lines([values])) == known
