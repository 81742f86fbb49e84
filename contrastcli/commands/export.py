"""`contrast export`: a model as a folder that other tools load, with a model card, or as ONNX; both are checked."""

import contextlib
import errno
import os
import re
import shutil
import stat
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from contrastcli.boundary import __version__, printable
from contrastcli.data.tokens import TOKENIZER_FILES
from contrastcli.errors import Remedy, RunError, UsageError, Use
from contrastcli.files import draft_of, flush_tree, fsync_dir, json_bytes, writing_to
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, save_encoder, usual_texts
from contrastcli.model.locate import ModelRef
from contrastcli.model.metrics import cosine
from contrastcli.model.pooling import in_words, pool
from contrastcli.runs.directory import Run
from contrastcli.settings.config import Config
from contrastcli.settings.sections import POOLINGS
from contrastcli.show.format import markdown_table
from contrastcli.show.scores import suite_tables

Format = Literal["sentence-transformers", "onnx"]

_ODD_TEXTS = (
    "Das Wetter in Zürich ist heute schön.",
    "東京は日本の首都です。",
    "def mean(xs): return sum(xs) / len(xs)  # https://example.org/a?b=c&d=1",
)
"""Texts on which an export is checked, besides the usual ones."""

_MIN_COSINE = 0.9999  # of a vector before and after
# Between numbers of torch and of onnxruntime.
_MAX_DIFFERENCE = 1e-4
_NAME_ANOTHER = "write elsewhere: name another folder"
_OPSET = 17
"""The first with layer normalisation, so that old runtimes support it."""

_TAGS = "tags: [sentence-similarity, feature-extraction, contrast]"
"""A line of the card, by which an earlier export is recognised."""

_FILES = re.compile(
    r"README\.md|config\.json|modules\.json|sentence_bert_config\.json|config_sentence_transformers\.json|model\.onnx"
    r"|adapter_config\.json|adapter_model\.safetensors|base\.json"
    r"|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json|\d_[A-Z]\w+/(config\.json|model\.safetensors)|"
    + "|".join(map(re.escape, TOKENIZER_FILES))
)
"""Everything that an export writes."""


def export_model(
    model: ModelRef,
    dest: Path,
    kind: Format = "sentence-transformers",
    dim: int | None = None,
    *,
    overwrite: bool = False,
    adapter: bool = False,
) -> Path:
    """Write a model, or with `dim` that of shorter embeddings, to a new folder, which appears when it is complete.

    LoRA is merged, or with `adapter` written alone.

    Raises UsageError if `dest` is not empty and may not be replaced, if a package is missing or if the embeddings have
    no `dim` numbers, RunError if it cannot be written or does not equal the model, and DataError if there is no model.
    """
    check_dest(dest, overwrite)
    encoder = load_encoder(model.folder(), merge=not adapter).eval()
    encoder.name = model.run.name if model.run else Path(model.name).resolve().name
    if adapter and (kind == "onnx" or not encoder.backbone.adapter):
        what = "the ONNX export merges adapters" if kind == "onnx" else f"{model.name} has no adapter of its own"
        raise UsageError(what, "leave out --adapter")
    if dim is not None:
        encoder.set_dim(dim)
    return write_model(encoder, dest, _about(model.run) if model.run else [], kind, overwrite)


def check_dest(dest: Path, overwrite: bool) -> None:
    """Raises UsageError if a folder is not empty and may not be replaced, RunError if it cannot be read."""
    with _writing(dest):
        _replaces(dest, overwrite)


def write_model(encoder: SentenceEncoder, dest: Path, about: Sequence[str], kind: Format, overwrite: bool) -> Path:
    """Write a model to a new folder, which appears when it is complete; `about` are parts of its card, in Markdown.

    Raises UsageError and RunError as `export_model` does.
    """
    with writing_to(dest, _NAME_ANOTHER):
        dest.resolve().parent.mkdir(parents=True, exist_ok=True)
        (draft := draft_of(dest.resolve())).mkdir()
    with _writing(dest):
        try:
            (_write_onnx if kind == "onnx" else _write)(encoder, draft)
            text = _card(encoder, about, onnx=kind == "onnx")
            (draft / "README.md").write_text(text, encoding="utf-8")
            flush_tree(draft)
            _put(draft, dest.resolve(), _replaces(dest, overwrite))
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return dest


@contextlib.contextmanager
def _writing(dest: Path) -> Iterator[None]:
    """Turn an error of the system in the body into a RunError, also where another process writes to the folder."""
    with writing_to(dest, _NAME_ANOTHER):
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT):
                raise
            what = f"{dest} was changed while the model was exported"
            raise RunError(what, _elsewhere(dest, Use("--overwrite"))) from None


def _replaces(dest: Path, overwrite: bool) -> bool:
    """Whether there is a folder, which an export may replace. Raises UsageError where it may not."""
    if not dest.exists():
        return False
    if not dest.is_dir():
        raise UsageError(f"{dest} is a file", _elsewhere(dest))
    inode = dest.stat().st_ino
    paths = [path for path in sorted(dest.rglob("*")) if not stat.S_ISDIR(path.lstat().st_mode)]
    names = [path.relative_to(dest).as_posix() for path in paths]
    card = (dest / "README.md").read_text(encoding="utf-8", errors="replace") if "README.md" in names else ""
    # Another export may have moved it away while it was read.
    if dest.stat().st_ino != inode:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(dest))
    if other := next((name for name in names if not _FILES.fullmatch(name)), ""):
        raise UsageError(f"{dest} holds {other}, which no export has written", _elsewhere(dest))
    # Model folders of other programs, and a run's own checkpoints, have files of the same names.
    if paths and _TAGS not in card:
        raise UsageError(f"{dest} holds a model that no export has written", _elsewhere(dest))
    if paths and not overwrite:
        raise UsageError(f"{dest} exists", _elsewhere(dest, Use("--overwrite")))
    return True


def _elsewhere(dest: Path, *others: Remedy) -> list[Remedy]:
    number = 2
    while (free := dest.resolve().with_name(f"{dest.resolve().name}-{number}")).exists():
        number += 1
    return [*others, f"choose another folder, such as {dest.with_name(free.name) if dest.name else free}"]


def _put(draft: Path, dest: Path, replaces: bool) -> None:
    """Put a complete folder in its place, or in that of another. Raises OSError, with everything as it was."""
    # What an export has left that was killed between the renames is removed here, since the new one is complete.
    former = draft_of(dest.with_name(f"{dest.name}.former"))
    if replaces:
        dest.rename(former)
    try:
        draft.rename(dest)
    except OSError:
        if replaces and not dest.exists():
            former.rename(dest)
        raise
    finally:
        shutil.rmtree(former, ignore_errors=True)
    fsync_dir(dest.parent)


def _write(encoder: SentenceEncoder, folder: Path) -> None:
    save_encoder(encoder, folder)
    texts = [*_ODD_TEXTS, *usual_texts()]
    lowest = cosine(encoder.encode(texts), load_encoder(folder).eval().encode(texts)).min()
    if not lowest > _MIN_COSINE:
        raise _differs(folder, f"a cosine is {lowest:.6f}")


def _differs(folder: Path, how: str) -> RunError:
    return RunError(f"what was written to {folder} is not the same model: {how}", "report this as a bug")


class _Graph(nn.Module):
    """The whole model: (B, T) token ids and (B, T) mask of 0 and 1 → (B, d)."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.bool()
        hidden, pooled = self.encoder.backbone(input_ids, mask), self.encoder.pooled_tokens(input_ids, mask)
        return self.encoder.finish(pool(hidden, pooled, self.encoder.contract.pooling))


def _write_onnx(encoder: SentenceEncoder, folder: Path) -> None:
    """model.onnx (input_ids, attention_mask → sentence_embedding), config and tokenizer, checked with onnxruntime."""
    try:
        import onnx  # noqa: F401  torch exports with it
        import onnxruntime
    except ImportError:
        raise UsageError("the ONNX export needs packages that are missing", 'pip install "contrastcli[onnx]"') from None
    folder.mkdir(exist_ok=True)
    encoder.tokenizer.save(folder, encoder.max_length)
    (folder / "config.json").write_bytes(json_bytes(encoder.backbone.config))
    # torch's newer exporter (dynamo) fails: the BERT family checks whether a batch is padded at all. A trace of a few
    # texts, of which some are padded, is valid for all.
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(
            _Graph(encoder).eval(),
            _padded(encoder, _ODD_TEXTS),
            folder / "model.onnx",
            input_names=["input_ids", "attention_mask"],
            output_names=["sentence_embedding"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}
            | {"sentence_embedding": {0: "batch"}},
            opset_version=_OPSET,
            dynamo=False,
        )
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    # Other sizes than in the trace, with padding and without.
    for texts in ([*_ODD_TEXTS, *usual_texts()], _ODD_TEXTS[:1]):
        ids, mask = _padded(encoder, texts)
        (vectors,) = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})
        difference = float(np.abs(encoder.encode(texts) - vectors).max())
        if not difference < _MAX_DIFFERENCE:
            raise _differs(folder, f"numbers differ by {difference:.1e}")


def _padded(encoder: SentenceEncoder, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Token ids and a mask of 0 and 1, both (B, T) int64."""
    ids, mask = encoder.pad(encoder.tokenise(texts), np.arange(len(texts)))
    return ids, mask.long()


def _card(encoder: SentenceEncoder, about: Sequence[str], *, onnx: bool) -> str:
    """The card in Markdown, with front matter for the hub."""
    template = Path(__file__).with_name("card-onnx.md" if onnx else "card.md").read_text(encoding="utf-8")
    default = encoder.contract.prompt()
    prompt = f", after the prefix {_code(default)} has been added" if default else ""
    # In one line of Markdown, in which it means nothing but itself.
    title = re.sub(r"([\\`*_~#|!<>&\[\]])", r"\\\1", printable(encoder.name))
    facts = {"tags": _TAGS, "title": title, "contract": _contract(encoder), "prompt": prompt}
    card = template.format(**facts, width=encoder.width, longest=encoder.max_length)
    return "\n".join([card, *about, f"Written by contrast {__version__}.\n"])


def _about(run: Run) -> list[str]:
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
