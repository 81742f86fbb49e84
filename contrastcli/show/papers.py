"""The papers' tables and figures as text: what there is, what an item takes, and its numbers in five formats."""

import shlex
from collections.abc import Container, Iterable, Iterator, Sequence
from shutil import get_terminal_size
from typing import Literal

from contrastcli.boundary import to_copy
from contrastcli.evaluation.reproduction import Measurement, TableMadeAgain, Trial, Trials, compare
from contrastcli.runs.text import MISSING, Numeral, fixed
from contrastcli.settings import papers
from contrastcli.settings.papers import Item, Request
from contrastcli.show.format import TABLES, as_csv, as_json, columns, table

Format = Literal["text", "markdown", "latex", "csv", "json"]

_MARKS = {"*": "* of fewer sets or rows than the paper's, so not compared", "=": "= within the deviations of both"}


def listing(listed: Iterable[tuple[Item, Request | None, Sequence[Trial]]], to_json: bool) -> str:
    """Every paper with its tables and figures, what each needs, and how much of it is made."""
    blocks: dict[str, list[tuple[str, str]]] = {}
    facts = []
    for item, request, trials in listed:
        done = sum(trial.done(item) for trial in trials)
        made = f"; {done} of {len(trials)} made" if request else ""
        made += ", not as printed" if request and not request.as_printed else ""
        blocks.setdefault(item.paper, []).append((item.key, f"{item.title}; {needs(item)}{made}"))
        names = {"paper": item.paper, "item": item.key, "title": item.title, "needs": needs(item)}
        runs = [trial.cell.name for trial in trials if trial.cell]
        facts.append(names | {"request": request, "done": done, "total": len(trials), "runs": runs})
    if to_json:
        return as_json(facts)
    titles = {key: f"{key}: {paper.title}" for key, paper in papers.book().papers.items()}
    parts = [f"{titles[key]}\n\n{columns(rows, get_terminal_size().columns)}" for key, rows in blocks.items()]
    first = f"{next(iter(blocks))} {next(iter(blocks.values()))[0][0]}"
    return "\n\n".join([*parts, to_copy(f"next: contrast papers show {first}")])


def _made(item: Item) -> Sequence[papers.System]:
    """The rows of an item but for those that cannot be made."""
    return [system for system in item.systems if not papers.recipe(system).why_not]


def needs(item: Item, changed: Container[str] = ()) -> str:
    """What an item takes in a few words, with some settings changed, or why it cannot be made."""
    if item.why_not:
        return f"not made: {item.why_not}"
    if any(table.suite == "data" for table in item.tables):
        return "counts the sets in the folder of --data-dir"
    made = _made(item)
    hub = dict.fromkeys(system.backbone for system in made if papers.book().backbones[system.backbone]["hub"])
    seeds = f" × {item.seeds} seeds" if item.seeds > 1 else ""
    weights = "" if papers.BACKBONE in changed else f"; needs weights from the hub: {', '.join(hub)}"
    return f"{len(made)} rows{seeds}{weights}" if made else "runs here"


def plan(item: Item, request: Request, made: Trials, with_numbers: bool = False) -> str:
    """What each row of an item takes, and what is there of it, perhaps below its printed numbers. Raises DataError."""
    printed = f"{numbers(item, request, made, 'text')}\n\n\n" if with_numbers and item.tables else ""
    lines, total = [], 0.0
    for system, trials in made.items():
        recipe, cell = papers.recipe(system), trials[0].cell if trials else None
        hours = papers.gpu_hours(system, cell.config, request) if cell else None
        total += len(trials) * (hours or 0)
        model = f"{trials[0].model}, {trials[0].pooling or 'averaged'}" if trials else recipe.why_not
        done = f"{sum(trial.done(item) for trial in trials)} of {len(trials)}"
        lines.append((*system, f"preset {recipe.preset}" if cell else model, done, fixed(hours, 2)))
    # The numbers have the notes.
    facts = [f"{item.name}: {item.title}; {needs(item, request.settings)}", *(() if printed else _notes(item, request))]
    facts += [table(("backbone", "row", "made of", "done", "GPU hours each"), lines)] if lines else []
    facts += [f"Training takes about {total:.1f} GPU hours (at 50 TFLOP/s, an A100 on short texts)."] if total else []
    verb = "run" if item.systems else "table" if item.tables else "figure"
    words = request.words or (["--data-dir", "DIR"] if verb == "table" else [])
    hint = to_copy(f"next: contrast papers {shlex.join([verb, item.paper, item.key, *words])}")
    return printed + "\n\n".join([*facts, *([] if item.why_not else [hint])])


def _notes(item: Item, request: Request) -> Iterator[str]:
    """What there is to know of an item, and in what it differs from the paper."""
    if item.note:
        yield item.note
    if request.scale != 1:
        yield f"Scale {request.scale:g}: runs of at most {100 * request.scale:g} % of the paper's training rows."
    asked = papers.systems(item, request)
    if request.rows or request.backbones:
        yield f"{len(asked)} of the {len(_made(item))} rows, as asked for."
    for system in asked:
        if why_not := papers.recipe(system).why_not:
            yield f"{system.method} on {system.backbone} is not made: {why_not}."
    if request.settings:
        yield f"Not the paper's: {', '.join(f'{key} = {value}' for key, value in request.settings.items())}."
    if papers.BACKBONE in request.settings:
        yield "One backbone stands for all: a method is printed as on the first that the table has."


def numbers(item: Item, request: Request, made: Trials, form: Format) -> str:
    """A table in a format, ours next to the printed numbers. Raises DataError."""
    compared = compare(item, made, request.data_dir)
    if form == "json":
        told = {"item": item.name, "request": request, "notes": list(_notes(item, request))}
        return as_json(told | {"numbers": list(_records(compared, request))})
    if form == "csv":
        records = list(_records(compared, request))
        return as_csv(list(records[0]) if records else [], (record.values() for record in records))
    grids = {one.printed.what: [["", "", "", *one.printed.columns], *_lines(one, request)] for one in compared}
    ends = {cell[-1:] for grid in grids.values() for row in grid for cell in row}
    words = [
        *_notes(item, request),
        *_machines(item, made),
        *(f"{text}." for mark, text in _MARKS.items() if mark in ends),
    ]
    comment, gap = ("% ", "\n") if form == "latex" else ("", "\n\n")
    blocks = [f"{comment}{what}{gap}{TABLES[form](grid[0], grid[1:])}" for what, grid in grids.items()]
    return gap.join([comment + item.name, *blocks, *(comment + line for line in words)])


def _machines(item: Item, made: Trials) -> Iterator[str]:
    """On what the runs of a table of training times were trained."""
    if any(table.suite == "time" for table in item.tables):
        names = dict.fromkeys(trial.machine for trials in made.values() for trial in trials if trial.machine)
        yield from (f"Ours trained on {name}." for name in names)


def _lines(made: TableMadeAgain, request: Request) -> Iterator[list[str]]:
    """Of each row ours, the printed numbers and the differences; only the printed ones where nothing is made.

    Where ours are of another backbone than the printed ones, both are named.
    """
    form = {"significance": ".3f", "data": ".6g"}.get(made.printed.suite, ".2f")
    for system, by_column in made.lines.items():
        measured = by_column.values()
        lines = [["printed", *(Numeral(one.printed or MISSING) for one in measured)]]
        names = [[*system], ["", ""], ["", ""]]
        if seeds := max((one.ours.n for one in measured if one.ours), default=0):
            lines.insert(0, [f"ours, {seeds} seeds" if seeds > 1 else "ours", *(_ours(one, form) for one in measured)])
            if other := request.settings.get(papers.BACKBONE):
                names[:2] = [[other, system.method], [system.backbone, ""]]
        if any(one.difference is not None for one in measured):
            lines.append(["difference", *(_difference(one, form) for one in measured)])
        yield from ([*name, *line] for name, line in zip(names, lines, strict=False))


def _ours(one: Measurement, form: str) -> Numeral:
    return Numeral(f"{one.ours:{form}}{'*' if one.partial else ''}" if one.ours else MISSING)


def _difference(one: Measurement, form: str) -> Numeral:
    return Numeral(MISSING if one.difference is None else f"{one.difference:+{form}}{'=' if one.within else ''}")


def _records(compared: Iterable[TableMadeAgain], request: Request) -> Iterator[dict[str, object]]:
    for made in compared:
        for (backbone, method), by_column in made.lines.items():
            for column, one in by_column.items():
                ours, theirs = one.ours, one.printed
                names = {"suite": made.printed.suite, "backbone": backbone, "row": method, "column": column}
                names["ours_backbone"] = str(request.settings.get(papers.BACKBONE, backbone))
                mean = {"ours": ours and ours.mean, "sd": ours and ours.sd, "seeds": ours.n if ours else 0}
                book = {"printed": theirs and theirs.value, "printed_sd": theirs and theirs.deviation}
                test = {"partial": one.partial, "difference": one.difference, "within": one.within}
                yield {**names, **mean, **book, **test}
