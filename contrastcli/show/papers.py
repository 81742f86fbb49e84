"""The papers' tables and figures as text: what there is, what an item needs, and its numbers in five formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

from contrastcli.evaluation.reproduction import Block, Number, Overview, Part
from contrastcli.files import atomic_write, writing_to
from contrastcli.runs.text import MISSING, fixed
from contrastcli.settings import papers
from contrastcli.settings.papers import Item, Request
from contrastcli.show.format import as_json, columns, markdown_table, table
from contrastcli.show.pictures import Picture

Format = Literal["text", "markdown", "latex", "csv", "json"]

_MARKS = {"*": "* of fewer sets or rows than the paper's, so not compared", "=": "= within the deviations of both"}
_ESCAPES = str.maketrans({c: f"\\{c}" for c in "&%$#_{}"} | {"±": "$\\pm$", "−": "$-$", "°": "$^\\circ$", "–": "--"})
_GREEK = {"λ": "lambda", "β": "beta", "τ": "tau", "σ": "sigma"}


def listing(listed: Sequence[Overview], to_json: bool) -> str:
    """Every paper with its tables and figures, what each needs, and what is there of it."""
    if to_json:
        return as_json([_facts(one) for one in listed])
    blocks = []
    for key, paper in papers.book().papers.items():
        rows = [(one.item.key, _summary(one)) for one in listed if one.item.paper == key]
        blocks.append(f"{key}: {paper.title}\n\n{columns(rows, get_terminal_size().columns)}")
    return "\n\n".join([*blocks, "next: contrast papers show simace table-1"])


def _facts(one: Overview) -> dict[str, object]:
    item = one.item
    facts = {"paper": item.paper, "item": item.key, "title": item.title, "rows": len(item.rows), "seeds": item.seeds}
    made = {"request": one.request, "done": one.done, "total": one.total}
    return facts | {"suites": item.suites, "why_not": item.entry.why_not} | made


def needs(item: Item) -> str:
    """What an item takes in a few words, or why it cannot be made."""
    if item.entry.why_not:
        return f"not made: {item.entry.why_not}"
    rows = [row for row in item.rows if not papers.why_not(row)]
    if not rows:
        return "nothing: runs here"
    hub = ", ".join(dict.fromkeys(backbone for backbone, _ in rows if papers.book().backbones[backbone]["hub"]))
    seeds = f" × {item.seeds} seeds" if item.seeds > 1 else ""
    return f"{len(rows)} rows{seeds}; weights of {hub} from the hub"


def _summary(one: Overview) -> str:
    made = ""
    if one.request:
        made = f"; made: {one.done} of {one.total}" + ("" if one.request.as_printed else ", not as printed")
    return f"{one.item.title}; {needs(one.item)}{made}"


def plan(item: Item, request: Request, made_of: Sequence[Part]) -> str:
    """What each row of an item takes, and what is there of it."""
    rows = [(p.backbone, p.method, p.why_not or p.source, f"{p.done} of {p.seeds}", fixed(p.hours, 1)) for p in made_of]
    hours = [part.hours for part in made_of if part.hours is not None]
    facts = [f"{item.name}: {item.title}", *notes(item, request)]
    if item.entry.why_not:
        return "\n\n".join([*facts, f"Not made: {item.entry.why_not}."])
    if rows:
        facts.append(table(("backbone", "row", "made of", "done", "GPU hours"), rows))
    if hours:
        words = "training alone, at 50 TFLOP/s, about an A100 on short texts"
        facts.append(f"GPU hours in all: {sum(hours):.1f} ({words}). Measured: {', '.join(item.suites) or 'nothing'}.")
    verb = "run" if item.rows else "figure"
    return "\n\n".join([*facts, f"next: contrast papers {verb} {item.paper} {item.key}"])


def notes(item: Item, request: Request) -> Iterator[str]:
    """What there is to know of an item, and in what it differs from the paper."""
    if item.note:
        yield item.note
    if request.scale != 1:
        yield f"Scale {request.scale:g}: runs of {100 * request.scale:g} % of the paper's training rows."
    if request.settings:
        yield f"Not the paper's: {', '.join(f'{key} = {value}' for key, value in request.settings.items())}."
    if papers.replaces_backbone(request):
        yield "One backbone stands for all: a method is printed as on the first that the table has."


def numbers(item: Item, request: Request, blocks: Sequence[Block], form: Format) -> str:
    """A table, ours beside theirs, in a format."""
    if form == "json":
        told = {"item": item.name, "request": request, "notes": list(notes(item, request))}
        return as_json(told | {"numbers": list(_records(blocks))})
    if form == "csv":
        return _csv(list(_records(blocks)))
    laid_out = {"text": table, "markdown": markdown_table, "latex": _latex}[form]
    grids = [(block.what, laid_out(_header(block), _rows(block))) for block in blocks]
    marks = [text for mark, text in _MARKS.items() if any(mark in cell for b in blocks for r in _rows(b) for cell in r)]
    words = [*notes(item, request), *(f"{mark}." for mark in marks)]
    if form == "latex":
        return "\n".join([f"% {item.name}", *(f"% {what}\n{grid}" for what, grid in grids), *(f"% {w}" for w in words)])
    return "\n\n".join([item.name, *(f"{what}\n\n{grid}" for what, grid in grids), *words])


def _header(block: Block) -> list[str]:
    return ["", "", "", *block.columns]


def _rows(block: Block) -> Iterator[list[str]]:
    """Of each row of a table the printed numbers and, if there are any, ours and the differences."""
    for line in block.lines:
        cells = [line.numbers[column] for column in block.columns]
        digits = 3 if block.suite == "significance" else 2
        rows = {"printed": [_printed(cell) for cell in cells]}
        if any(cell.ours for cell in cells):
            ours = f"ours, {line.seeds} seeds" if line.seeds > 1 else "ours"
            rows = {ours: [_ours(cell, digits) for cell in cells], **rows}
            rows["difference"] = [_difference(cell, digits) for cell in cells]
        for number, (kind, values) in enumerate(rows.items()):
            yield [*([line.backbone, line.method] if number == 0 else ["", ""]), kind, *values]


def _ours(cell: Number, digits: int) -> str:
    if cell.ours is None:
        return MISSING
    sd = "" if cell.ours.sd is None else f" ± {cell.ours.sd:.{digits}f}"
    return f"{cell.ours.mean:.{digits}f}{sd}{'*' if cell.partial else ''}"


def _printed(cell: Number) -> str:
    return str(cell.printed) if cell.printed else MISSING


def _difference(cell: Number, digits: int) -> str:
    if cell.difference is None:
        return MISSING
    return f"{cell.difference:+.{digits}f}{'=' if cell.within else ''}"


def _records(blocks: Sequence[Block]) -> Iterator[dict[str, object]]:
    """A record for each number of a table."""
    for block in blocks:
        for line in block.lines:
            for column, cell in line.numbers.items():
                yield {
                    "suite": block.suite,
                    "backbone": line.backbone,
                    "row": line.method,
                    "column": column,
                    "ours": cell.ours and cell.ours.mean,
                    "sd": cell.ours and cell.ours.sd,
                    "seeds": cell.ours.n if cell.ours else 0,
                    "partial": cell.partial,
                    "printed": cell.printed and cell.printed.value,
                    "printed_sd": cell.printed and cell.printed.deviation,
                    "difference": cell.difference,
                    "within": cell.within,
                }


def _csv(records: Sequence[dict[str, object]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return stream.getvalue().rstrip("\n")


def _latex(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for the package booktabs."""
    body = list(rows)
    lines = [" & ".join(map(_tex, line)) + r" \\" for line in body]
    for number in range(len(body) - 1, 0, -1):
        if body[number][1]:
            lines.insert(number, r"\addlinespace")
    top = [rf"\begin{{tabular}}{{lll{'r' * (len(header) - 3)}}}", r"\toprule"]
    return "\n".join(
        [*top, f"{' & '.join(map(_tex, header))} \\\\", r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    )


def _tex(text: str) -> str:
    text = text.translate(_ESCAPES)
    for letter, name in _GREEK.items():
        text = text.replace(letter, f"$\\{name}$")
    return text.replace("-", "$-$", 1) if text[:1] == "-" and text != "--" else text


def save_numbers(picture: Picture, folder: Path) -> Path:
    """Write a picture's numbers as CSV, a line for each point. Raises RunError."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["series", picture.x_label or "x", picture.y_label or "y"])
    for series in picture.series:
        places: Sequence[object] = series.x[: len(series.y)] or [""]  # a histogram has an edge more, a bar no place
        writer.writerows([series.name, x, y] for x, y in zip(places, series.y, strict=True))
    path = folder / f"{picture.name}.csv"
    with writing_to(folder):
        atomic_write(path, stream.getvalue().encode())
    return path
