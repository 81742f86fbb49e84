"""The papers' tables and figures as text: what there is, what an item takes, and its numbers in five formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shutil import get_terminal_size
from typing import Literal

from contrastcli.evaluation.reproduction import Cell, Compared, Number, compare
from contrastcli.runs.text import MISSING, fixed
from contrastcli.settings import papers
from contrastcli.settings.papers import Item, Request, Row
from contrastcli.settings.published import Table
from contrastcli.show.format import as_csv, as_json, columns, markdown_table, table

Format = Literal["text", "markdown", "latex", "csv", "json"]

_MARKS = {"*": "* of fewer sets or rows than the paper's, so not compared", "=": "= within the deviations of both"}
_TEX = str.maketrans({character: f"\\{character}" for character in "&%$#_{}"})
_TEX |= str.maketrans({"±": r"$\pm$", "–": "--", "λ": r"$\lambda$", "β": r"$\beta$", "τ": r"$\tau$"})


def listing(listed: Iterable[tuple[Item, Request | None, Sequence[Cell]]], to_json: bool) -> str:
    """Every paper with its tables and figures, what each needs, and how much of it is made."""
    blocks: dict[str, list[tuple[str, str]]] = {}
    facts = []
    for item, request, cells in listed:
        done = sum(cell.done(item) for cell in cells)
        made = f"; {done} of {len(cells)} made" if request else ""
        made += ", not as printed" if request and not request.as_printed else ""
        blocks.setdefault(item.paper, []).append((item.key, f"{item.title}; {needs(item)}{made}"))
        names = {"paper": item.paper, "item": item.key, "title": item.title, "needs": needs(item)}
        runs = [cell.run_name for cell in cells if cell.config]
        facts.append(names | {"request": request, "done": done, "total": len(cells), "runs": runs})
    if to_json:
        return as_json(facts)
    titles = {key: f"{key}: {paper.title}" for key, paper in papers.book().papers.items()}
    parts = [f"{titles[key]}\n\n{columns(rows, get_terminal_size().columns)}" for key, rows in blocks.items()]
    return "\n\n".join([*parts, "next: contrast papers show simace table-1"])


def needs(item: Item) -> str:
    """What an item takes in a few words, or why it cannot be made."""
    if item.why_not:
        return f"not made: {item.why_not}"
    if any(table.suite == "data" for table in item.tables):
        return "counts the sets in the folder of --data-dir"
    rows = [row for row in item.rows if not papers.recipe(row).why_not]
    hub = dict.fromkeys(backbone for backbone, _ in rows if papers.book().backbones[backbone]["hub"])
    seeds = f" × {item.seeds} seeds" if item.seeds > 1 else ""
    return f"{len(rows)} rows{seeds}; needs weights from the hub: {', '.join(hub)}" if rows else "runs here"


def plan(item: Item, request: Request, made: Mapping[Row, Sequence[Cell]], with_notes: bool = True) -> str:
    """What each row of an item takes, and what is there of it; without notes below its numbers, which have them."""
    lines, total = [], 0.0
    for row, cells in made.items():
        recipe, config = papers.recipe(row), next((cell.config for cell in cells), None)
        hours = papers.gpu_hours(row, config, request) if config else None
        total += len(cells) * (hours or 0)
        model = f"{cells[0].model}, {cells[0].pooling or 'averaged'}" if cells else recipe.why_not
        done = f"{sum(cell.done(item) for cell in cells)} of {len(cells)}"
        lines.append((*row, f"preset {recipe.preset}" if config else model, done, fixed(hours, 2)))
    facts = [f"{item.name}: {item.title}; {needs(item)}", *(_notes(item, request) if with_notes else ())]
    facts += [table(("backbone", "row", "made of", "done", "GPU hours each"), lines)] if lines else []
    facts += [f"Training takes about {total:.1f} GPU hours (at 50 TFLOP/s, an A100 on short texts)."] if total else []
    verb, more = ("run", "") if item.rows else ("table", " --data-dir DIR") if item.tables else ("figure", "")
    hint = f"next: contrast papers {verb} {item.paper} {item.key}{more}"
    return "\n\n".join([*facts, *([] if item.why_not else [hint])])


def _notes(item: Item, request: Request) -> Iterator[str]:
    """What there is to know of an item, and in what it differs from the paper."""
    if item.note:
        yield item.note
    if request.scale != 1:
        yield f"Scale {request.scale:g}: runs of at most {100 * request.scale:g} % of the paper's training rows."
    asked = papers.rows(item, request)
    if request.rows or request.backbones:
        yield f"{len(asked)} of the {len(item.rows)} rows, as asked for."
    for backbone, method in asked:
        if why_not := papers.recipe((backbone, method)).why_not:
            yield f"{method} on {backbone} is not made: {why_not}."
    if request.settings:
        yield f"Not the paper's: {', '.join(f'{key} = {value}' for key, value in request.settings.items())}."
    if papers.BACKBONE in request.settings:
        yield "One backbone stands for all: a method is printed as on the first that the table has."


def numbers(item: Item, request: Request, made: Mapping[Row, Sequence[Cell]], form: Format) -> str:
    """A table in a format, ours next to the printed numbers. Raises DataError."""
    compared = compare(item, made, request.data_dir)
    if form == "json":
        told = {"item": item.name, "request": request, "notes": list(_notes(item, request))}
        return as_json(told | {"numbers": list(_records(compared))})
    if form == "csv":
        records = list(_records(compared))
        return as_csv(list(records[0]) if records else [], (record.values() for record in records))
    grids = {one.what: [["", "", "", *one.columns], *_lines(one, lines)] for one, lines in compared}
    ends = {cell[-1:] for grid in grids.values() for row in grid for cell in row}
    words = [
        *_notes(item, request),
        *_machines(item, made),
        *(f"{text}." for mark, text in _MARKS.items() if mark in ends),
    ]
    if form == "latex":
        blocks = [f"% {what}\n{_latex(*grid)}" for what, grid in grids.items()]
        return "\n".join([f"% {item.name}", *blocks, *(f"% {line}" for line in words)])
    laid_out = {"text": table, "markdown": markdown_table}[form]
    return "\n\n".join([item.name, *(f"{what}\n\n{laid_out(g[0], g[1:])}" for what, g in grids.items()), *words])


def _machines(item: Item, made: Mapping[Row, Sequence[Cell]]) -> Iterator[str]:
    """On what the runs of a table of training times were trained."""
    if any(table.suite == "time" for table in item.tables):
        names = dict.fromkeys(cell.machine for cells in made.values() for cell in cells if cell.machine)
        yield from (f"Ours trained on {name}." for name in names)


def _lines(printed: Table, lines: Mapping[Row, Mapping[str, Number]]) -> Iterator[list[str]]:
    """Of each row ours, the printed numbers and the differences; only the printed ones where nothing is made."""
    form = {"significance": ".3f", "data": ".6g"}.get(printed.suite, ".2f")
    for row, numbers in lines.items():
        cells = numbers.values()
        kinds = {"printed": [str(cell.printed or MISSING) for cell in cells]}
        if seeds := max((cell.ours.n for cell in cells if cell.ours), default=0):
            ours = f"ours, {seeds} seeds" if seeds > 1 else "ours"
            kinds = {ours: [_ours(cell, form) for cell in cells], **kinds}
        if any(cell.difference is not None for cell in cells):
            kinds["difference"] = [_difference(cell, form) for cell in cells]
        for number, (kind, values) in enumerate(kinds.items()):
            yield [*(("", "") if number else row), kind, *values]


def _ours(cell: Number, form: str) -> str:
    return f"{cell.ours:{form}}{'*' if cell.partial else ''}" if cell.ours else MISSING


def _difference(cell: Number, form: str) -> str:
    return MISSING if cell.difference is None else f"{cell.difference:+{form}}{'=' if cell.within else ''}"


def _records(compared: Compared) -> Iterator[dict[str, object]]:
    """A record for each number of a table."""
    for printed, lines in compared:
        for (backbone, method), numbers in lines.items():
            for column, cell in numbers.items():
                ours, theirs = cell.ours, cell.printed
                names = {"suite": printed.suite, "backbone": backbone, "row": method, "column": column}
                mean = {"ours": ours and ours.mean, "sd": ours and ours.sd, "seeds": ours.n if ours else 0}
                book = {"printed": theirs and theirs.value, "printed_sd": theirs and theirs.deviation}
                test = {"partial": cell.partial, "difference": cell.difference, "within": cell.within}
                yield {**names, **mean, **book, **test}


def _latex(header: Sequence[str], *rows: Sequence[str]) -> str:
    """A table for the package booktabs."""
    head, *body = [" & ".join(cell.translate(_TEX) for cell in row) + r" \\" for row in (header, *rows)]
    spaced = [f"\\addlinespace\n{line}" if n and rows[n][1] else line for n, line in enumerate(body)]
    top = rf"\begin{{tabular}}{{lll{'r' * (len(header) - 3)}}}"
    return "\n".join([top, r"\toprule", head, r"\midrule", *spaced, r"\bottomrule", r"\end{tabular}"])
