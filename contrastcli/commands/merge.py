"""`contrast merge`: a model between a base and runs that began from it, chosen on dev data."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from contrastcli.boundary import narrate, to_copy
from contrastcli.commands.compare import dev_data
from contrastcli.commands.export.card import About, in_code, without_folders
from contrastcli.commands.export.export import check_dest, write_model
from contrastcli.data.dev_data import DevData, load_general, read_dev
from contrastcli.errors import UsageError, Use
from contrastcli.model.folder import load_model
from contrastcli.model.locate import ModelRef, resolve
from contrastcli.model.merging import Mixture, load_mixture
from contrastcli.runs.text import MISSING, Numeral, score
from contrastcli.runs.verdict import Change, against
from contrastcli.settings.metrics import metric_title
from contrastcli.settings.sections import Blank, Data, Dev
from contrastcli.show import console
from contrastcli.show.format import Grid, markdown_table, table
from contrastcli.training.dev import DevSet


class Row(msgspec.Struct, frozen=True):
    """Weights at an alpha, or of one of several runs, and how they change the base's scores on the own and general set.

    `model` is the one that has them already, if one has; `keeps` is whether they keep the general score.
    """

    alpha: float | None
    model: str = ""
    own: Change | None = None
    general: Change | None = None
    keeps: bool = True


class Merged(msgspec.Struct, frozen=True):
    """What was measured on which data, the own first; the row that is taken; and the folder that was written.

    That is None where a model has the best weights already. Of a row that was `chosen`, not typed, the interval allows
    for that.
    """

    base: str
    runs: Sequence[str]
    data: Sequence[str]
    rows: Sequence[Row]
    best: Row
    output: str | None
    chosen: bool


def merge(
    base: str, runs: Sequence[str], dest: Path, directory: Path, *, alpha: float | None, overwrite: bool, **how: Any
) -> Merged:
    """Write the model at `alpha`; for None at the best one, unless that is one of the models itself.

    `how` is what `_read_data` takes. Raises UsageError, DataError and RunError.
    """
    check_dest(dest, overwrite)
    refs = [resolve(word, directory) for word in (base, *runs)]
    models = {ref.title: ref for ref in refs}
    if len({ref.place for ref in refs}) < len(refs):
        raise UsageError("one model is named twice", "name a base, and runs that began from it")
    own, general, keep = _read_data(refs[1:], **how)
    mixture = load_mixture(refs[0], refs[1:])
    if own is None and alpha is None:
        remedies = [Use("--dev", "FILE or stsb", "name some:"), Use("--alpha", "0.5", "merge without:")]
        raise UsageError("there are no dev data to choose alpha by", remedies)
    rows, best = list[Row](), Row(alpha)
    if own:
        rows, best = _measure(mixture, models, alpha, DevSet.of(own, mixture.encoder, general), keep)
    first, *names = models
    output = str(dest) if alpha is not None or not best.model else None
    merged = Merged(first, names, [one.source for one in (own, general) if one], rows, best, output, alpha is None)
    if output and best.alpha is not None:
        encoder = mixture.at(best.alpha)
        encoder.name = dest.resolve().name
        write_model(encoder, dest, About(_about(merged)), "sentence-transformers", overwrite)
    return merged


def _read_data(
    runs: Sequence[ModelRef], dev: str | None, general: str | None, columns: str, blank: Blank
) -> tuple[DevData | None, DevData | None, float]:
    """The own and the general set, those of the runs unless named here, and how far the general score may fall."""
    if columns and not dev:
        raise UsageError("--columns says what the data of --dev hold, and there are none", "add --dev FILE")
    trained = [ref.run for ref in runs if ref.run]
    settings = trained[0].config().dev if trained else Dev(data="none")
    settings = structs.replace(settings, data=dev or settings.data, general=general or settings.general)
    if settings.data == "none":
        if general not in (None, "none"):
            what = "--general is measured beside dev data, and there are none"
            raise UsageError(what, Use("--dev", "FILE or stsb", "name some:"))
        return None, None, 0.0
    own = read_dev(dev, columns, blank=blank, to_choose=True) if dev else dev_data(trained)
    data = trained[0].config().data if trained else Data(blank=blank)
    return own, load_general(settings, data), settings.keep_general


def _measure(
    mixture: Mixture, models: Mapping[str, ModelRef], alpha: float | None, dev: DevSet, keep: float
) -> tuple[list[Row], Row]:
    """The rows, the base first, and that at `alpha`, or for None the best; of equal ones that with more in general."""
    base, *runs = models
    alphas = [n / 10 for n in range(11)] if alpha is None else sorted({0.0, alpha, 1.0})
    # The mean of several runs is no model yet.
    known = {0.0: base} if len(runs) > 1 else {0.0: base, 1.0: runs[0]}
    trials: list[tuple[float | None, str]] = [(at, known.get(at, "")) for at in alphas]
    trials[1:1] = [(None, run) for run in runs if len(runs) > 1]
    rows, chosen, highest = list[Row](), 0, (-math.inf, 0.0)
    with console.progress() as advance:
        for step, (at, model) in enumerate(trials):
            advance("measuring", step, len(trials))
            encoder = load_model(models[model]) if at is None else mixture.at(at)
            general = dev.evaluate(encoder, step).general
            keeps = dev.keeps_general(keep) if keep else general is None or general.judgement != "worse"
            own = dev.change("last")
            rows.append(Row(at, model, own, general, keeps))
            kept = general.after if general and general.after is not None else 0.0
            after = (own.after if keeps and own.after is not None else -math.inf, kept)
            if after > highest if alpha is None else at == alpha:
                chosen, highest = step, after
                dev.keep_best()
        advance("measuring", len(trials), len(trials))
    if chosen:
        rows[chosen] = structs.replace(rows[chosen], own=dev.change("best", chosen=alpha is None))
        if alpha is None:
            narrate(f"note: the interval of the best is wider: it allows for the choice among {len(rows)}")
    return rows, rows[chosen]


def report(merged: Merged) -> str:
    """What was measured, what is taken, and the command that uses it."""
    if merged.output:
        query = f'contrast query "a dog runs" "a puppy sprints" --model {shlex.quote(merged.output)}'
        lines = [*_verdict(merged), f"wrote {merged.output}", f"next: {to_copy(query)}"]
    else:
        export = f"contrast export {shlex.quote(merged.best.model)} DEST"
        lines = [f"{merged.best.model} is the best, and nothing is written; to use it: {to_copy(export)}"]
    return "\n\n".join([*([table(*_grid(merged))] if merged.rows else []), "\n".join(lines)])


def _verdict(merged: Merged) -> list[str]:
    """The merged model against the base, in a line, if it was measured."""
    alpha, own, general = merged.best.alpha, merged.best.own, merged.best.general
    text = f"; {general.judgement} in general: {general}" if general else ""
    return [f"α {alpha:g} is {against(own.judgement, without_folders(merged.base))}: {own}{text}"] if own else []


def _grid(merged: Merged) -> Grid:
    """A line for each row: the scores on both sets, each with the interval of its difference from the base's."""
    header, lines = ["α"], []
    for source, change in zip(merged.data, (merged.best.own, merged.best.general), strict=False):
        if change:
            header.append(f"{metric_title(change.metric)}, {without_folders(source)}, 95 %")
    for row in merged.rows:
        cells: list[str] = [Numeral(MISSING if row.alpha is None else f"{row.alpha:g}")]
        cells += [f"{score(one.after):>6} ({one.interval})" for one in (row.own, row.general) if one]
        remarks = [
            without_folders(row.model),
            "" if row.keeps else "too low in general",
            ("best" if merged.chosen else "written") if row is merged.best else "",
        ]
        lines.append([*cells, ", ".join(filter(None, remarks))])
    return [*header, ""], lines


def _about(merged: Merged) -> list[str]:
    """The part of the card on the members, what was measured, and the command that writes the same model again."""
    runs, alpha = [without_folders(run) for run in merged.runs], f"{merged.best.alpha:g}"
    command = shlex.join(["contrast", "merge", without_folders(merged.base), *runs, "-o", "DIR", "--alpha", alpha])
    mean = f"the mean of {', '.join(map(in_code, runs))}" if len(runs) > 1 else in_code(runs[0])
    text = f"The weights are (1 − α) · base + α · run, with α = {alpha}, of {in_code(merged.base)} and {mean}."
    tables = [markdown_table(*_grid(merged))] if merged.rows else []
    return [f"{part}\n" for part in ("## Merge", text, *tables, *_verdict(merged), f"    {command}")]
