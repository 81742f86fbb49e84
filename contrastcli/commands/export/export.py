"""A model to a new folder, which appears when it is complete."""

import re
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from contrastcli.boundary import narrate, printable
from contrastcli.commands.export.card import TAGS, About, about, model_card, without_folders
from contrastcli.commands.export.check import check, sample, usual_texts
from contrastcli.commands.export.formats import FORMATS, IF_A_LIBRARY_FAILS, check_packages
from contrastcli.data.tokens import TOKENIZER_FILES
from contrastcli.errors import Remedy, RunError, UsageError, Use, failing_as
from contrastcli.files import draft_of, flush_tree, fsync_dir, make_folder, writing_to
from contrastcli.model.contract import CLASSIFIER
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import ModelRef
from contrastcli.model.static import distil
from contrastcli.runs.process import interruptible
from contrastcli.settings.sections import Format

_OF_THE_RUN = "What follows is of the run's model, from which this one was cut, distilled or quantised.\n"
_NAME_ANOTHER = "write elsewhere: name another folder"

EXPORTED = re.compile(
    r"README\.md|config\.json|modules\.json|sentence_bert_config\.json|config_sentence_transformers\.json|model\.onnx"
    r"|openvino_model\.(xml|bin)"
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
    min_cosine: float | None = None,
) -> Path:
    """Write a model, or with `dim` that of shorter embeddings, to a new folder, which appears when it is complete.

    LoRA is merged, or with `adapter` written alone. `min_cosine` is that of a text before and after, by default the
    format's.

    Raises UsageError if `dest` is not empty and may not be replaced, if a package is missing or if the embeddings have
    no `dim` numbers, RunError if it cannot be written or does not equal the model, and DataError if there is no model.
    """
    check_packages(kind)
    check_dest(dest, overwrite)
    folder = model.folder()
    encoder = load_encoder(folder, merge=not adapter).eval()
    encoder.name = model.run.name if model.run else Path(model.name).resolve().name
    if encoder.contract.is_classifier:
        narrate(f"note: {CLASSIFIER.format(encoder.name)}")
    merges = kind != "sentence-transformers"
    if adapter and (merges or not encoder.backbone.adapter):
        what = f"the format {kind} merges adapters" if merges else f"{model.name} has no adapter of its own"
        raise UsageError(what, "leave out --adapter")
    written = distil(encoder, dim) if kind == "static" else encoder
    if dim is not None and kind != "static":
        # Next to the whole one, whose scores are those before.
        written = load_encoder(folder, merge=not adapter).eval()
        written.name = encoder.name
        written.set_dim(dim)
    measure = partial(check, encoder, written, FORMATS[kind], *sample(model.run), min_cosine)
    origin = about(model.run) if model.run else About()
    if model.run and (written is not encoder or kind == "onnx-int8"):
        origin = replace(origin, parts=[_OF_THE_RUN, *origin.parts])
    return write_model(written, dest, origin, kind, overwrite, measure)


def check_dest(dest: Path, overwrite: bool) -> None:
    """Raises UsageError if a folder is not empty and may not be replaced, RunError if it cannot be written."""
    with writing_to(dest, _NAME_ANOTHER):
        _replaces(dest, overwrite)
        # What is missing above it is made with it, if there is a model.
        make_folder(next(filter(Path.exists, dest.resolve().parents)))


@interruptible()
def write_model(
    encoder: SentenceEncoder,
    dest: Path,
    origin: About,
    kind: Format,
    overwrite: bool,
    measure: Callable[[Path], Sequence[str]] | None = None,
) -> Path:
    """Write a model to a new folder, which appears when it is complete; `origin` is for its card.

    What is measured of the folder, by default that it is the same model, is told, also in the card. Raises UsageError
    and RunError as `export_model` does.
    """
    target, writing = FORMATS[kind], partial(writing_to, dest, _NAME_ANOTHER)
    # There may be no graph of some model.
    remedies: list[Remedy] = [Use("--format", "sentence-transformers", "use")] if target.graph else []
    remedies += IF_A_LIBRARY_FAILS
    with writing():
        (draft := draft_of(dest.resolve())).mkdir(parents=True)
        try:
            with failing_as(RunError, f"the format {kind} cannot be written", remedies), writing():
                target.write(encoder, draft)
            lines = measure(draft) if measure else check(encoder, encoder, target, usual_texts(), (), None, draft)
            narrate("\n".join(lines))
            measured = "\n".join(f"    {printable(without_folders(line))}" for line in lines)
            checked = replace(origin, parts=[f"## Check\n\n{measured}\n", *origin.parts])
            text = model_card(encoder, checked, graph=target.graph)
            (draft / "README.md").write_text(text, encoding="utf-8")
            flush_tree(draft)
            _put(draft, dest.resolve(), _replaces(dest, overwrite))
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return dest


def _replaces(dest: Path, overwrite: bool) -> bool:
    """Whether there is a folder, which an export may replace. Raises UsageError where it may not."""
    if not dest.exists():
        return False
    if not dest.is_dir():
        raise UsageError(f"{dest} is a file", "choose another folder")
    paths = [path for path in sorted(dest.rglob("*")) if not stat.S_ISDIR(path.lstat().st_mode)]
    names = [path.relative_to(dest).as_posix() for path in paths]
    card = (dest / "README.md").read_text(encoding="utf-8", errors="replace") if "README.md" in names else ""
    if other := next((name for name in names if not EXPORTED.fullmatch(name)), ""):
        raise UsageError(f"{dest} holds {other}, which no export has written", "choose another folder")
    # Model folders of other programs, and a run's own checkpoints, have files of the same names.
    if paths and TAGS not in card:
        raise UsageError(f"{dest} holds a model that no export has written", "choose another folder")
    if paths and not overwrite:
        raise UsageError(f"{dest} exists", [Use("--overwrite"), "choose another folder"])
    return True


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
