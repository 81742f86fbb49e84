"""A screen as an SVG that every program draws alike: words where they stand; blocks, frames and dots as paths."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI

_WIDTH, _HEIGHT, _FONT, _BASELINE = 12, 24, 20, 18
_DOT = 4.4
Part = tuple[float, float, float, float]
"""A rectangle in a character: left, top, width and height, in eighths of it."""

_PARTS: dict[str, list[Part]] = {"▀": [(0, 0, 8, 4)], "▐": [(4, 0, 4, 8)], "▔": [(0, 0, 8, 1)], "▕": [(7, 0, 1, 8)]}
_PARTS |= {chr(0x2580 + n): [(0, 8 - n, 8, n)] for n in range(1, 9)}
_PARTS |= {chr(0x2590 - n): [(0, 0, n, 8)] for n in range(1, 8)}
for _letters, _across in (("─│╭╮╰╯┤├", 0.6), ("━┃┏┓┗┛┫┣", 1.5)):
    # A character is twice as high as it is wide, and so is the upright of a frame.
    _x, _y = 4 - _across, 4 - _across / 2
    _arms = {
        "l": (0, _y, _x + 2 * _across, _across),
        "r": (_x, _y, 8 - _x, _across),
        "u": (_x, 0, 2 * _across, _y + _across),
        "d": (_x, _y, 2 * _across, 8 - _y),
    }
    _ways = ("lr", "ud", "rd", "ld", "ru", "lu", "lud", "rud")
    _PARTS |= {letter: [_arms[way] for way in ways] for letter, ways in zip(_letters, _ways, strict=True)}


def svg(rows: Iterable[Iterable[Segment]], width: int, title: str) -> str:
    """Rows of segments, so many cells wide together, as the text of an SVG."""
    grounds, blocks, dots = (defaultdict[str, list[str]](list) for _ in range(3))
    words: list[str] = []
    for row, segments in enumerate(rows):
        column = 0
        for segment in segments:
            style = segment.style or Style()
            ink, ground = (_hex(style.color, True), _hex(style.bgcolor, False))[:: -1 if style.reverse else 1]
            grounds[ground].append(_rectangle(column, row, segment.cell_length))
            words += _words(segment.text, f'fill="{ink}"{_look(style)}', column, row)
            for letter in segment.text:
                blocks[ink] += [_rectangle(column, row, 1, part) for part in _PARTS.get(letter, ())]
                dots[ink] += _dots(letter, column, row)
                column += cell_len(letter)
        height = _HEIGHT * (row + 1)
    font = f'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{_FONT}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH * width} {height}" {font}>',
            f"<title>{escape(title)}</title>",
            *_paths(grounds, 'shape-rendering="crispEdges" fill'),
            *_paths(blocks, 'shape-rendering="crispEdges" fill'),
            *_paths(dots, f'stroke-width="{_DOT}" stroke-linecap="round" stroke'),
            *words,
            "</svg>",
        ]
    )


def _paths(shapes: Mapping[str, Sequence[str]], look: str) -> Iterator[str]:
    return (f'<path {look}="{colour}" d="{"".join(some)}"/>' for colour, some in shapes.items() if some)


def _words(text: str, look: str, column: int, row: int) -> Iterator[str]:
    """What fonts draw of a text, each word where it stands; nothing that XML does not have."""
    for word in re.finditer(rf"[^\s\u2800-\u28ff\ud800-\udfff\ufffe\uffff{''.join(_PARTS)}]+", text):
        x, length = column + cell_len(text[: word.start()]), cell_len(word[0])
        place = f'x="{_WIDTH * x}" y="{_HEIGHT * row + _BASELINE}" textLength="{_WIDTH * length}"'
        yield f"<text {place} {look}>{escape(word[0])}</text>"


def _look(style: Style) -> str:
    bold, italic = ' font-weight="bold"' * bool(style.bold), ' font-style="italic"' * bool(style.italic)
    return bold + italic + ' text-decoration="underline"' * bool(style.underline)


def _rectangle(column: int, row: int, cells: int, part: Part = (0, 0, 8, 8)) -> str:
    left, top, width, height = part
    x, y, across = _WIDTH * (column + left / 8), _HEIGHT * (row + top / 8), _WIDTH * (cells - 1 + width / 8)
    return f"M{x:g} {y:g}h{across:g}v{_HEIGHT * height / 8:g}h{-across:g}z"


def _dots(letter: str, column: int, row: int) -> Iterator[str]:
    """The dots of a braille character, as lines of no length with round ends."""
    bits = ord(letter) - 0x2800 if "\u2800" <= letter <= "\u28ff" else 0
    for bit, (across, down) in enumerate(((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))):
        if bits >> bit & 1:
            yield f"M{_WIDTH * (column + 0.25 + across / 2):g} {_HEIGHT * (row + 0.125 + down / 4):g}h0"


def _hex(colour: Color | None, foreground: bool) -> str:
    return (colour or Color.default()).get_truecolor(DIMMED_MONOKAI, foreground).hex
