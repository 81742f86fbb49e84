"""The card of an exported model, in Markdown: how texts become vectors, how it was trained, what was measured of it."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from contrastcli.boundary import __version__, escaped, printable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.pooling import in_words
from contrastcli.model.prompts import PROMPT_NAMES
from contrastcli.runs.directory import Run
from contrastcli.runs.events import Verdict
from contrastcli.runs.status import Environment
from contrastcli.settings import presets
from contrastcli.settings.catalogue import ENTRY_POINTS
from contrastcli.settings.config import Config
from contrastcli.settings.outside import package_of
from contrastcli.settings.sections import POOLINGS, Alerts, Track
from contrastcli.settings.setting import spell
from contrastcli.show.format import markdown_table
from contrastcli.show.scores import suite_tables

TAGS = "tags: [sentence-similarity, feature-extraction, contrast]"
"""A line of the card, by which an earlier export is recognised."""


_NO_METHOD = ("alerts.", "track.")
"""What begins the keys of settings that concern only the user."""


@dataclass(frozen=True)
class About:
    """What a card says of the origin of a model: `facts` for the hub by their names, and `parts` in Markdown."""

    parts: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


def model_card(encoder: SentenceEncoder, about: About, *, graph: str) -> str:
    """The card in Markdown, with front matter for the hub."""
    template = Path(__file__).with_name("card-onnx.md" if graph else "card.md").read_text(encoding="utf-8")
    default = encoder.contract.prompt()
    prompt = f", after the prefix {_code(default)} has been added" if default else ""
    encoded = '*model.encode(["a dog runs", "a puppy sprints"])'
    if any(encoder.contract.prompt(kind) != default for kind in PROMPT_NAMES):
        encoded = 'model.encode_query("a dog runs"), model.encode_document("a puppy sprints")'
    # JSON is YAML too.
    tags = "\n".join([TAGS, *(f"{name}: {json.dumps(fact)}" for name, fact in about.facts.items())])
    facts = {"tags": tags, "title": _plain(encoder.name), "contract": _contract(encoder), "prompt": prompt}
    facts |= {"encoded": encoded, "graph": graph, "library": "onnx" if graph.endswith(".onnx") else "openvino"}
    card = template.format(**facts, width=encoder.width, longest=encoder.max_length)
    return "\n".join([card, *about.parts, f"Written by contrast {__version__}.\n"])


def about(run: Run) -> About:
    """How a run was trained and what was measured of it, for a card. Raises DataError if the run is malformed."""
    config, environment = run.config(), Environment.read(run.environment_path)
    verdicts = (_plain(verdict.details(verdict.step)) for verdict in islice(run.latest(Verdict), 1))
    parts = [f"## Verdict\n\nThe model is {verdict}.\n" for verdict in verdicts]
    for suite in suite_tables(run.scores(), config):
        rows = [[_plain(without_folders(cell)) for cell in row] for row in suite.rows]
        texts = [f"## Scores: {suite.suite}, with seed {config.train.seed}", markdown_table(suite.header, rows)]
        notes = (line for note in suite.notes for line in note.splitlines())
        parts.append("\n\n".join([*texts, *map(_plain, notes), ""]))
    # The cache of the hub has a folder of its name.
    backbone = re.sub(r".*models--([^/\\]+).*", lambda match: match[1].replace("--", "/"), config.model.backbone)
    facts = {
        "base_model": environment.backbone.get("revision") and backbone.partition("@")[0],
        "datasets": re.findall(r"hf:(\w[\w.-]*/\w[\w.-]*)", config.data.train, re.ASCII),
    }
    parts += [_training(run, config, environment), _repeat(config, environment)]
    parts += [_settings(config), _trained_with(environment)]
    return About(parts, {name: fact for name, fact in facts.items() if fact})


def _plain(text: str) -> str:
    """A text as one line of Markdown, in which it means nothing but itself."""
    return re.sub(r"([\\`*_~#!<>&\[\]])", r"\\\1", printable(text))


def _code(text: str) -> str:
    """A text as code, in the cells of tables too."""
    line = printable(text)
    if not re.search(r"[`|]|^ .* $", line):
        return line and f"`{line}`"
    entities = re.sub(r"[^\w ]", lambda match: f"&#{ord(match[0])};", line)
    return f"<code>{entities}</code>"


_FOLDERS = re.compile(r"(?<![\w./\\])(?:[A-Za-z]:|~)?[/\\](?=\w)(?:[^/\\,:=]+[/\\])*(?=[^/\\,:=])")
"""What comes before the last name of an absolute path, in a value of a setting."""


def without_folders(value: object) -> str:
    """The value of a setting without the folders of this machine."""
    return _FOLDERS.sub("", str(value))


def in_code(value: object) -> str:
    """The same as code in Markdown."""
    return _code(without_folders(value))


def _contract(encoder: SentenceEncoder) -> str:
    """How texts become vectors, for those who run the model with other software."""
    contract = encoder.contract
    steps = [f"Pooling `{contract.pooling}`: {POOLINGS[contract.pooling]}."]
    if contract.is_static:
        steps = ["A static model: each token has one vector, whatever the others are, and a text their mean."]
    steps += [f"Then {in_words(layer)}." for layer in contract.after]
    if default := contract.prompt():
        steps.append(f"Every text is prefixed with {_code(default)}.")
    named = contract.prompts.items()
    kinds = {text: " or ".join(f"a {name}" for name, other in named if other == text) for _, text in named}
    prompts = [f"{_code(text)} for {of}" for text, of in kinds.items() if text not in ("", default)]
    if prompts:
        steps.append(f"Prefixes: {', '.join(prompts)}.")
    if contract.suffix:
        steps.append(f"The tokenizer adds {_code(contract.suffix)} to every text.")
    return " ".join(steps)


def _training(run: Run, config: Config, environment: Environment) -> str:
    status, rows = run.status(), environment.data.get("rows")
    data = f"Data: {in_code(config.data.train)}{f', {rows:,} rows' if isinstance(rows, int) else ''}."
    lines = ["## Training\n", f"Objective `{config.spec.name}`: {config.spec.paper}. {data}\n"]
    if status.best is not None:
        dev = f"{status.title} × 100 on the dev pairs {in_code(config.dev.data)}"
        best = f"{100 * status.best:.2f} at step {status.best_step}, the best of the run, with seed {config.train.seed}"
        lines.append(f"{dev}: {best}.\n")
    return "\n".join(lines)


def _repeat(config: Config, environment: Environment) -> str:
    """The command that trains again with the settings that are not defaults, and the package that it needs."""
    package = package_of(ENTRY_POINTS, config.spec.loss)
    needed = ["data", *(f"{_plain(name)} {environment.packages.get(name, '')}".strip() for name in package)]
    own = replace(config, alerts=Alerts(), track=Track())
    command = shlex.join(["contrast", "train", *map(without_folders, presets.words(own, ()))])
    fence = "`" * (1 + max(2, *map(len, re.findall("`*", command))))
    return f"To train it again, with the same {' and '.join(needed)}:\n\n{fence}sh\n{escaped(command)}\n{fence}\n"


def _settings(config: Config) -> str:
    rows = [(f"`{key}`", in_code(spell(x))) for key, x in config.flat().items() if not key.startswith(_NO_METHOD)]
    return _folded("All settings", markdown_table(("setting", "value"), rows))


def _trained_with(environment: Environment) -> str:
    facts = {
        "contrast": environment.contrast,
        "commit": environment.commit,
        "Python": environment.python,
        **environment.packages,
        "platform": environment.platform,
        "device": f"{environment.device} {environment.device_name}".strip(),
        "precision": environment.precision,
        "processes": environment.processes,
        "revision of the backbone": environment.backbone.get("revision"),
        "fingerprint of the rows": environment.data.get("fingerprint"),
    }
    rows = [(_plain(name), in_code(value)) for name, value in facts.items() if value]
    return _folded("Environment", markdown_table(("name", "value"), rows))


def _folded(title: str, content: str) -> str:
    """A part of which the hub shows only the title, until it is asked for."""
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>\n"
