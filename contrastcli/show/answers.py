"""Answers of commands as text: similarities, neighbours, mined rows, benchmarks."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from contrastcli.boundary import printable
from contrastcli.runs import results
from contrastcli.runs.text import excerpt, fixed
from contrastcli.show.format import as_json_lines, table

_WIDEST = 100
"""Characters of a text that are shown of a row."""
_READ = 300
"""Those of a text that is to be judged as a negative."""
_ROLE_WIDTH = 9


def similarities(pairs: Sequence[results.Similarity]) -> str:
    """A line for each pair: cosine to four decimals and degrees to one."""
    return "\n".join(f"{s.cosine:7.4f}  {s.angle_deg:5.1f}°  {printable(s.a)}  |  {printable(s.b)}" for s in pairs)


def neighbours(answers: Sequence[results.Nearest]) -> str:
    """The nearest sentences to each query, a line for each."""
    blocks = []
    for answer in answers:
        lines = [f"{n.cosine:7.4f}  {n.angle_deg:5.1f}°  {_name(n):>6}  {printable(n.text)}" for n in answer.neighbours]
        blocks.append("\n".join([printable(answer.query), *lines] if len(answers) > 1 else lines))
    return "\n\n".join(blocks)


def _name(row: results.Neighbour | results.MinedRow) -> str:
    return str(row.row) if row.id is None else printable(row.id)


def _text(candidate: results.Candidate) -> str:
    text = excerpt(candidate.text, _READ)
    return text if candidate.id is None else f"{text}  [{printable(candidate.id)}]"


def mined(result: results.Mined) -> str:
    """The hardest rows that were mined: cosine, verdict, rank and text, or its beginning, of each candidate."""
    blocks = []
    for row in result.hardest:
        lines = [f"row {_name(row)}  {excerpt(row.anchor, _READ)}"]
        lines += [f"  {row.cosine:7.4f}  positive         {excerpt(row.positive, _READ)}"]
        lines += [f"  {c.cosine:7.4f}  {c.verdict:<9}  {c.rank:>4}  {_text(c)}" for c in row.candidates]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def inspected(result: results.Inspected) -> str:
    """What is in training rows: tables of lengths, languages and kinds, and some rows of each kind; or of columns."""
    if result.columns:
        cells = ((name, column["role"], column["first"]) for name, column in result.columns.items())
        listed = [(excerpt(name, _WIDEST), role, excerpt(first, _WIDEST)) for name, role, first in cells]
        return table(("column", "role", "first value"), listed)
    unit = "tokens" if result.model else "words"
    header = [unit, "p50", "p95", "longest", *(["% cut"] if result.model else [])]
    cut = {role: [fixed(100 * lengths.cut, 1)] if result.model else [] for role, lengths in result.lengths.items()}
    rows = [[role, one.p50, one.p95, one.longest, *cut[role]] for role, one in result.lengths.items()]
    kinds = [[one.kind, one.count, one.about, "" if one.drops else "stays"] for one in result.found]
    spoken = [
        (role, ", ".join(f"{n} {100 * x:.1f} %" for n, x in [*by.items()][:5]))
        for role, by in result.languages.items()
        if by
    ]
    count = f"{result.source}: {result.count:,} {result.form}"
    blocks = [count, table(header, rows), *([table(("languages", ""), spoken)] if spoken else [])]
    blocks += [table(("kind", "rows", "", ""), kinds), *(_kind(one) for one in result.found if one.rows)]
    return "\n\n".join(blocks)


def _kind(found: results.Found) -> str:
    from rich.cells import cell_len, set_cell_size

    lines = [f"{found.kind}: {found.about}"]
    for row in found.rows:
        beside = f", as {row.other_where}" if row.other_where else ""
        # --keep and --drop take its number.
        number = f"row {row.row}"
        place = number if row.where == number else f"{number}, {row.where}"
        lines.append(f"  {place}{beside}{': ' if row.why else ''}{row.why}")
        texts = [*row.texts.items(), *(one for one in row.other_texts.items() if one not in row.texts.items())]
        width = max([_ROLE_WIDTH, *(cell_len(printable(name)) for name, _ in texts)])
        lines += [f"    {set_cell_size(printable(name), width)} {excerpt(text, _WIDEST)}" for name, text in texts]
        lines += [f"    {n.cosine:9.4f} {excerpt(n.text, _WIDEST)}" for n in row.neighbours]
    return "\n".join(lines)


def benchmarks(measured: Iterable[results.Benchmark], to_json: bool) -> Iterator[str]:
    """A line for each, as they come: the median of its rounds, × sentence-transformers, % of the matrix products."""
    layout = "{:<24}  {:<37}  {:>9}  {:>6}  {:>7}"
    for number, one in enumerate(measured):
        if to_json:
            yield as_json_lines([one])
            continue
        if number == 0:
            yield layout.format("", "", "a second", "× peer", "% limit")
        rate = f"{median(one.rates):,.{0 if median(one.rates) >= 10 else 2}f}" if one.rates else "–"
        share = None if one.limit_share is None else 100 * one.limit_share
        line = layout.format(one.what, one.program, rate, fixed(one.ratio, 2), fixed(share, 0))
        yield f"{line}  {one.error}".rstrip()
    if not to_json:
        peer = "× peer: its fastest in that precision, else of all"
        yield f"a second: sentences, or queries; {peer}; % limit: of the matrix products just before"
