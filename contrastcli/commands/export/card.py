"""The card of an exported model, in Markdown: how texts become vectors, how it was trained, what was measured of it."""

import re
from collections.abc import Sequence
from pathlib import Path

from contrastcli.boundary import __version__, printable
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.pooling import in_words
from contrastcli.runs.directory import Run
from contrastcli.settings.config import Config
from contrastcli.settings.sections import POOLINGS
from contrastcli.show.format import markdown_table
from contrastcli.show.scores import suite_tables

TAGS = "tags: [sentence-similarity, feature-extraction, contrast]"
"""A line of the card, by which an earlier export is recognised."""


def model_card(encoder: SentenceEncoder, about: Sequence[str], *, onnx: bool) -> str:
    """The card in Markdown, with front matter for the hub."""
    template = Path(__file__).with_name("card-onnx.md" if onnx else "card.md").read_text(encoding="utf-8")
    default = encoder.contract.prompt()
    prompt = f", after the prefix {_code(default)} has been added" if default else ""
    # In one line of Markdown, in which it means nothing but itself.
    title = re.sub(r"([\\`*_~#|!<>&\[\]])", r"\\\1", printable(encoder.name))
    facts = {"tags": TAGS, "title": title, "contract": _contract(encoder), "prompt": prompt}
    card = template.format(**facts, width=encoder.width, longest=encoder.max_length)
    return "\n".join([card, *about, f"Written by contrast {__version__}.\n"])


def about(run: Run) -> list[str]:
    """How a run was trained and what was measured of it, for a card. Raises DataError if the run is malformed."""
    tables = suite_tables(run.scores(), run.config())
    scores = (f"## Scores: {one.suite}\n\n{one.markdown}\n".replace("<", "&lt;") for one in tables)
    return [_training(run, run.config()), *scores]


def _code(text: str) -> str:
    line = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    pad = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{fence}{pad}{line}{pad}{fence}" if line else ""


_FOLDERS = re.compile(r"(?<![\w./\\])(?:[A-Za-z]:)?[/\\](?=\w)(?:[^/\\,:=]+[/\\])*")
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
    steps += [f"Then {in_words(layer)}." for layer in contract.after]
    if default := contract.prompt():
        steps.append(f"Every text is prefixed with {_code(default)}.")
    prompts = [f"{_code(text)} for a {name}" for name, text in contract.prompts.items() if text and text != default]
    if prompts:
        steps.append(f"Prefixes: {', '.join(prompts)}.")
    if contract.suffix:
        steps.append(f"The tokenizer adds {_code(contract.suffix)} to every text.")
    return " ".join(steps)


def _training(run: Run, config: Config) -> str:
    status = run.status()
    lines = [
        "## Training\n",
        f"Objective `{config.spec.name}`: {config.spec.paper}. Data: {in_code(config.data.train)}.\n",
    ]
    if status.best is not None:
        dev = f"{status.title} × 100 on the dev pairs {in_code(config.dev.data)}"
        lines.append(f"{dev}: {100 * status.best:.2f} at step {status.best_step}, the best of the run.\n")
    rows = [(f"`{key}`", in_code(value)) for key, value in config.flat().items() if not key.startswith("alerts.")]
    return "\n".join([*lines, markdown_table(("setting", "value"), rows), ""])
