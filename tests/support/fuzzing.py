"""What the fuzzer damages, the commands that meet it, and how they may end."""

import gzip
import json
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any, NamedTuple

import numpy as np
import pytest
from datasets import Dataset

from contrastcli.errors import EXIT_CODES
from contrastcli.runs import process
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Done
from support import sts_files, transfer_files
from support.damage import (
    Damage,
    Thing,
    damage_bytes,
    damage_json,
    damage_safetensors,
    damage_toml,
    damage_words,
    put,
)
from support.forked import Outcome, run
from support.tiny import SPECIAL, WORDS, Tiny, train

MEMORY_MB = 1_200
ARGUMENTS = "arguments"
"""A folder of command lines, a word a line, which are damaged as files are."""
ENVIRONMENT = "environment"
"""A file of variables, NAME=VALUE."""

_TRAIN = (
    "train --objective pairsupcon --backbone tiny/backbone --data tiny/labelled.jsonl --dev tiny/dev.jsonl"
    " --batch-size 8 --max-steps 2 --no-ui --general none --device cpu --precision fp32"
)
_SIMCSE = _TRAIN.replace("pairsupcon", "simcse")
_SWEEP = f"{_TRAIN.replace('train', 'sweep', 1).replace(' --no-ui', '')} --name grid --grid objective.tau=0.1,0.2"
_TINY = "--model tiny/backbone"
_SEARCH = f"query {_TINY} --corpus data/sentences.txt bo --json"
_EVAL = "eval tiny/backbone --suite sts,transfer,geometry --task STS12,SICK-R,TREC --data-dir senteval --json"
_ARGUMENTS = {
    "train": f"{_TRAIN} --tau=0.1 --margin=0 --lr=1e-3 --limit=30 --max-length=16 --warmup=0.1 --set=dev.every=2"
    " --columns=anchor=premise,positive=hypothesis,label=label --name=given --seed=3 --pooling=mean",
    "config": "config show --preset=starter --tau=0.1 --epochs=2 --set=train.clip=1 --json",
    "sweep": f"{_SWEEP.replace('grid ', 'other ', 1)} --seeds=2 --dry-run",
    "query": "query bo da --model simple --json",
    "search": f"query bo {_TINY} --corpus data/sentences.txt -k 3 --json",
    "encode": f"encode data/sentences.txt -o out.npy {_TINY} --precision fp32",
    "export": "export simple out --format sentence-transformers",
    "eval": f"{_EVAL} --pooling mean --out pictures",
    "runs": "runs show simple --json",
    "rm": "runs rm simple --yes",
    "stop": "stop simple --wait 1",
    "compare": "compare simple other --json",
}
_LOOK = (
    *("runs", "runs list --json", "runs show simple", "runs show simple --json"),
    *("runs path simple", "stop simple --wait 3", "compare simple other", "compare simple other --json"),
    *("runs rm simple --yes", "runs prune"),
    *("watch simple", "watch simple --json", "runs verify simple", "runs verify simple --json"),
)
_RESUME = ("train --resume simple --max-steps 6 --no-ui", "train --resume simple --max-steps 6 --json")
_USE = ("query --model simple bo ka --json", "export simple out", "eval simple --suite geometry --json")
_GRID = ("runs list", "sweep --resume grid", "sweep --resume grid --json", "compare grid", "runs show grid")


def _model(name: str) -> Sequence[str]:
    return (
        *(f"query --model {name} bo ka --json", f"encode data/sentences.txt -o out.npy --model {name}"),
        *(f"{_TRAIN} --backbone {name}", f"export {name} out", f"query --model {name} --corpus data/sentences.txt bo"),
    )


def _data(name: str) -> Sequence[str]:
    return (
        *(f"{_SIMCSE} --data {name} --dry-run", f"{_SIMCSE} --data {name}", f"{_TRAIN} --data {name}"),
        *(f"query {_TINY} --corpus {name} bo --json", f"encode {name} -o out.npy {_TINY}", f"{_TRAIN} --dev {name}"),
        *(f"eval simple --data {name} --json", f"encode {name} -o out.npy {_TINY} --blank drop"),
    )


class Target(NamedTuple):
    """A file, or a folder of which one is drawn, how it is damaged, and the commands that meet it."""

    path: str
    damage: Damage
    commands: Sequence[str]


_LAST = "runs/simple/checkpoints/000004"
_SENTEVAL = (
    *("STS/STS12-en-test/STS.input.MSRpar.txt", "STS/STS12-en-test/STS.gs.MSRpar.txt"),
    *("SICK/SICK_test_annotated.txt", "TREC/train_5500.label", "TREC/TREC_10.label"),
)
_MODEL_SETTINGS = (
    *("config", "tokenizer", "tokenizer_config", "modules", "sentence_bert_config", "config_sentence_transformers"),
    *("1_Pooling/config", "2_Dense/config"),
)
TARGETS = (
    Target("runs/simple/events.jsonl", damage_json, (*_LOOK, *_RESUME)),
    Target("runs/simple/events.jsonl", damage_bytes, (*_LOOK, *_RESUME)),
    Target("runs/simple/alive", damage_json, (*_LOOK[:8], *_RESUME)),  # `watch` waits for a process that may be alive
    Target("runs/simple/config.toml", damage_toml, (*_LOOK, *_RESUME, *_USE)),
    Target("runs/simple/scores.json", damage_json, (*_LOOK, *_USE)),
    Target("runs/simple/environment.json", damage_json, (*_LOOK, *_RESUME)),
    Target("runs/simple/checkpoints.json", damage_json, (*_LOOK, *_RESUME, *_USE)),
    Target("runs/simple/lock", damage_bytes, (*_RESUME, *_LOOK)),
    Target("runs/simple/stop.request", damage_bytes, (*_RESUME, *_LOOK[:8])),
    Target("runs/simple/train.log", damage_bytes, (*_LOOK, *_RESUME)),
    Target("runs/simple/checkpoints", damage_bytes, (*_LOOK, *_RESUME, *_USE)),
    Target(f"{_LAST}/training/position.json", damage_json, (*_RESUME, *_USE)),
    Target(f"{_LAST}/training/heads.safetensors", damage_safetensors, _RESUME),
    Target(f"{_LAST}/training/optimizer.safetensors", damage_safetensors, _RESUME),
    Target(f"{_LAST}/model.safetensors", damage_safetensors, (*_RESUME, *_USE)),
    Target(f"{_LAST}/config.json", damage_json, (*_RESUME, *_USE)),
    Target("runs/grid.sweep.toml", damage_toml, _GRID),
    *(Target(f"model/{name}.json", damage_json, _model("model")) for name in _MODEL_SETTINGS),
    Target("model/tokenizer.json", damage_bytes, _model("model")),
    Target("model/model.safetensors", damage_safetensors, _model("model")),
    Target("model/2_Dense/model.safetensors", damage_safetensors, _model("model")),
    Target("words/1_WordWeights/config.json", damage_json, _model("words")),
    Target("words/1_WordWeights/model.safetensors", damage_safetensors, _model("words")),
    Target("old/vocab.txt", damage_bytes, _model("old")),
    Target("old/special_tokens_map.json", damage_json, _model("old")),
    Target("old/tokenizer_config.json", damage_json, _model("old")),
    *(Target(f"data/{name}", damage_json, _data(f"data/{name}")) for name in ("labelled.jsonl", "rows.json")),
    *(
        Target(f"data/{name}", damage_bytes, _data(f"data/{name}"))
        for name in ("labelled.jsonl", "labelled.csv", "labelled.tsv", "sentences.txt", "labelled.parquet")
    ),
    Target("data/labelled.jsonl.gz", damage_bytes, _data("data/labelled.jsonl.gz")),
    Target("data", damage_bytes, _data("data")),
    *(Target(f"senteval/{name}", damage_bytes, (_EVAL,)) for name in _SENTEVAL),
    Target("glove.txt", damage_bytes, (_EVAL.replace("tiny/backbone", "glove.txt"),)),
    Target("settings.toml", damage_toml, (f"{_TRAIN} --config settings.toml", "config show --config settings.toml")),
    Target("sweep.toml", damage_toml, ("sweep --config sweep.toml --name new --dry-run",)),
    Target("contrast.toml", damage_toml, (_TRAIN, "config show", "config show --json", "runs")),
    Target("user/contrast/config.toml", damage_toml, (_TRAIN, "config show", "config show --json", "doctor")),
    *(Target(f"cache/{name}", damage_bytes, (_TRAIN, _SEARCH)) for name in ("tokens", "vectors", "checksums")),
    Target("cache/scores", damage_json, (_EVAL,)),
    Target("stdin", damage_bytes, (f"query {_TINY} - --json", f"encode - -o out.npy {_TINY}")),
    Target("stdin", damage_bytes, (f"query {_TINY} --corpus data/sentences.txt - --json",)),
    Target(ENVIRONMENT, damage_words, (_TRAIN, "config show --json", "doctor --json", "query bo da --json")),
    *(Target(f"{ARGUMENTS}/{name}", damage_words, ("",)) for name in _ARGUMENTS),
)


@dataclass(frozen=True)
class Case:
    """What a file holds, or what stands in its place, and the command that meets it."""

    path: str
    command: tuple[str, ...]
    damaged: bytes | Thing

    def put(self) -> None:
        """Damage the file."""
        if isinstance(self.damaged, Thing):
            put(self.damaged, Path(self.path))
        else:
            Path(self.path).write_bytes(self.damaged)

    def words(self) -> list[str]:
        """The command line."""
        return _words(Path(self.path)) if self.path.startswith(ARGUMENTS) else list(self.command)

    def environment(self) -> dict[str, str]:
        """The variables that are set."""
        lines = _words(Path(ENVIRONMENT)) if self.path == ENVIRONMENT else []
        named = [line.partition("=")[::2] for line in lines if re.match(r"CONTRAST_\w+=", line)]
        return {"XDG_CONFIG_HOME": str(Path("user").resolve()), **dict(named)}

    def to_json(self, what: str) -> str:
        """A line of the corpus; files of more than 20,000 bytes are cut."""
        content = self.damaged if isinstance(self.damaged, Thing) else [self.damaged[:20_000].decode("latin-1")]
        return json.dumps({"fault": what, "path": self.path, "command": " ".join(self.command), "damaged": content})

    @classmethod
    def from_json(cls, line: str) -> "Case":
        """The case of a line of the corpus."""
        case = json.loads(line)
        content = case["damaged"]
        damaged = Thing(content) if isinstance(content, str) else content[0].encode("latin-1")
        return cls(case["path"], tuple(case["command"].split()), damaged)


def _words(path: Path) -> list[str]:
    return [word for word in path.read_text("utf-8", "surrogateescape").split("\n") if word]


def fault(case: Case, outcome: Outcome) -> str:
    """What is wrong with how a command ended; nothing for an input rightly accepted and for an error of two lines."""
    verb = (case.words() or [""])[0]
    out = "" if verb == "export" else outcome.out  # which is a path, and a pipe gets it as it is
    text = out + outcome.err.replace("\r", "")
    control = set(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]", text))
    two_lines = re.search(r"^contrast: error: .+\nhint: .+\n\Z", outcome.err, re.MULTILINE) is not None
    # These print what they have done before the error.
    shows_more = verb in ("train", "sweep", "watch", "eval", "doctor") or {"-", "verify"} & {*case.words()}
    faults = {
        "hangs": outcome.code == -signal.SIGALRM,
        f"ends by signal {-outcome.code}": outcome.code < 0,
        "takes too much memory": outcome.memory_mb > MEMORY_MB,
        "traceback": "Traceback" in outcome.err,
        "unexpected exception": "--debug" in outcome.err,
        f"control characters {sorted(control)}": bool(control),
        f"exit code {outcome.code}": outcome.code not in EXIT_CODES,
        "no error of two lines": outcome.code != 0 and verb != "watch" and not two_lines,
        "refused with output": outcome.code != 0 and bool(outcome.out) and not shows_more,
    }
    first = next((what for what, holds in faults.items() if holds), "")
    return first if first or outcome.code else _wrong(case.words(), verb, outcome)


def _wrong(words: Sequence[str], verb: str, outcome: Outcome) -> str:
    """What is wrong with the result of a command that was accepted."""
    if {"-h", "--help"} & {*words}:
        return ""
    try:
        values = _json(outcome.out) if "--json" in words else []
        if verb == "query":
            answers = [answer for value in values for answer in value.get("neighbours", [value])]
            assert all(abs(answer["cosine"]) < 1.00001 for answer in answers), "a cosine beyond 1"
            given = [line for line in Path("stdin").read_bytes().split(b"\n") if line] if "-" in words else values
            assert len(values) == len(given), f"{len(values)} answers to {len(given)} lines"
        if verb == "encode" and (count := re.search(r": ([\d,]+) vectors", outcome.err)):
            vectors = np.load("out.npy")
            assert len(vectors) == int(count[1].replace(",", "")), "another number of vectors"
            assert np.isfinite(vectors).all(), "a vector that is not finite"
        if verb == "train" and "--json" not in words and outcome.out.strip() and "--dry-run" not in words:
            end = Run(Path(outcome.out.strip())).events()[-1]
            assert isinstance(end, Done) and end.code == 0, f"the run ends with {end}"
    except (AssertionError, ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        return f"wrong output: {type(error).__name__}: {error}"[:200]
    return ""


def _json(text: str) -> list[Any]:
    """The JSON value of a text, or of each of its lines. Raises ValueError, also for a number that is none."""

    def refuse(number: str) -> None:
        raise ValueError(f"{number} in JSON")

    try:
        return [json.loads(text, parse_constant=refuse)]
    except json.JSONDecodeError:
        return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def write_world(tiny: Tiny) -> None:
    """Runs, a sweep, models of four forms, data of every format, evaluation sets and caches in the working folder."""
    shutil.copytree(tiny.backbone.parent, "tiny")
    _write_data([json.loads(line) for line in Path("tiny/labelled.jsonl").read_text().splitlines()][:40])
    _write_settings()
    sts_files.write_all(Path("senteval"))
    transfer_files.write_transfer(Path("senteval"))
    Path("glove.txt").write_text("".join(f"{word} {len(word)} {n % 7}.5 -{n % 5}\n" for n, word in enumerate(WORDS)))
    with pytest.MonkeyPatch.context() as patch:
        # The cells of the sweep are trained where it is, without a process for each.
        patch.setattr(process, "launch", lambda run, arguments: train(run).code)
        for line in (
            *(f"{_TRAIN} --name simple --max-steps 4 --head keep", f"{_TRAIN} --name other --pooling mean-no-cls"),
            *(_SWEEP, "export simple model", "export other words", _SEARCH, "eval simple --suite geometry", _EVAL),
        ):
            outcome = run(line.split(), environment={"XDG_CONFIG_HOME": str(Path("user").resolve())})
            assert outcome.code == 0 or (line == _EVAL and outcome.code == 3), outcome
    _write_old_model(Path("old"))
    writer = {"host": gethostname(), "pid": 2**30, "process_start": 0.0}
    Path("runs/simple/alive").write_text(json.dumps(writer))
    for name in ("stop.request", "lock", "train.log"):
        Path("runs/simple", name).write_text("")


def _write_data(rows: Sequence[Mapping[str, str]]) -> None:
    names = dict(zip(rows[0], rows[0], strict=True))
    texts = {
        "labelled.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "rows.json": json.dumps({"data": rows}),
        "labelled.csv": "".join(",".join(row.values()) + "\n" for row in (names, *rows)),
        "labelled.tsv": "".join("\t".join(row.values()) + "\n" for row in (names, *rows)),
        "sentences.txt": "".join(f"{row['premise']}\n" for row in rows),
    }
    Path("data").mkdir()
    for name, text in texts.items():
        Path("data", name).write_text(text)
    Path("data/labelled.jsonl.gz").write_bytes(gzip.compress(texts["labelled.jsonl"].encode()))
    Dataset.from_list([*rows]).to_parquet("data/labelled.parquet")
    Path("stdin").write_text("bo da\tka len\nmo ra\tto sa\n" * 20)


def _write_settings() -> None:
    """Files of settings, variables, and command lines."""
    Path("settings.toml").write_text("[train]\nlr = 1e-3\n[objective]\ntau = 0.1\n[dev]\nevery = 1\n")
    Path("sweep.toml").write_text(
        'seeds = 2\n[about]\nwhat = "a grid"\ntexts = 2\n[model]\nbackbone = "tiny/backbone"\n'
        '[data]\ntrain = "tiny/sentences.jsonl"\n[dev]\ndata = "none"\n[train]\nbatch_size = 8\n'
        '[grid]\n"objective.tau" = [0.1, 0.2]\n"train.lr" = [1e-3]\n'
    )
    Path("contrast.toml").write_text('[train]\nlr = 1e-3\n[model]\npooling = "mean"\n')
    Path("user/contrast").mkdir(parents=True)
    Path("user/contrast/config.toml").write_text("[train]\nweight_decay = 0.1\n[data]\nmask_duplicates = true\n")
    variables = "TRAIN_LR=0.001 OBJECTIVE_TAU=0.1 DEV_EVERY=2 MODEL_POOLING=cls TRAIN_CLIP=2 MODEL=tiny/backbone"
    variables += " CACHE=cache RUNS=runs STATE=state"
    Path(ENVIRONMENT).write_text("\n".join(f"CONTRAST_{variable}" for variable in variables.split()))
    Path(ARGUMENTS).mkdir()
    for name, line in _ARGUMENTS.items():
        Path(ARGUMENTS, name).write_text(line.replace(" ", "\n"))


def _write_old_model(folder: Path) -> None:
    """A folder older than tokenizer.json."""
    shutil.copytree("tiny/backbone", folder)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in (*SPECIAL, *WORDS)))
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    (folder / "special_tokens_map.json").write_text(json.dumps(roles))
    settings = {"tokenizer_class": "BertTokenizer", "model_max_length": 32, "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
