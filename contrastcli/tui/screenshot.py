"""A screen as an SVG that every program draws alike: words where they stand, dots and blocks as paths."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI

_WIDTH, _HEIGHT, _FONT = 12, 24, 20
_DOT = 4.4
Part = tuple[float, float, float, float]
"""Left, top, width and height, in eighths of a character."""


def _parts() -> dict[str, list[Part]]:
    """The characters that are drawn as rectangles: blocks and frames."""
    parts: dict[str, list[Part]] = {"▀": [(0, 0, 8, 4)], "▐": [(4, 0, 4, 8)], "▔": [(0, 0, 8, 1)], "▕": [(7, 0, 1, 8)]}
    parts |= {chr(0x2580 + n): [(0, 8 - n, 8, n)] for n in range(1, 9)}
    parts |= {chr(0x2590 - n): [(0, 0, n, 8)] for n in range(1, 8)}
    ways = ("lr", "ud", "rd", "ld", "ru", "lu", "lud", "rud")
    for letters, thick in (("─│╭╮╰╯┤├", 1.2), ("━┃┏┓┗┛┫┣", 3.0)):
        # A character is twice as high as it is wide.
        across, down = thick / 2, thick
        middle = (8 - down) / 2, (8 - across) / 2
        arms: dict[str, Part] = {
            "l": (0, middle[1], middle[0] + down, across),
            "r": (middle[0], middle[1], 8 - middle[0], across),
            "u": (middle[0], 0, down, middle[1] + across),
            "d": (middle[0], middle[1], down, 8 - middle[1]),
        }
        parts |= {letter: [arms[way] for way in some] for letter, some in zip(letters, ways, strict=True)}
    return parts


_PARTS = _parts()


class _Drawing:
    """What is drawn, by colour: grounds, then blocks and dots, then words."""

    def __init__(self) -> None:
        self.grounds: defaultdict[str, list[str]] = defaultdict(list)
        self.blocks: defaultdict[str, list[str]] = defaultdict(list)
        self.dots: defaultdict[str, list[str]] = defaultdict(list)
        self.words: list[str] = []

    def add(self, segment: Segment, column: int, row: int) -> None:
        style = segment.style or Style()
        ink, ground = _hex(style.color, foreground=True), _hex(style.bgcolor, foreground=False)
        ink, ground = (ground, ink) if style.reverse else (ink, ground)
        self.grounds[ground].append(_rectangle(column, row, cell_len(segment.text)))
        for is_blank, letters in groupby(segment.text, str.isspace):
            text = "".join(letters)
            if not is_blank:
                self._add_word(text, column, row, ink, style)
            column += cell_len(text)

    def _add_word(self, text: str, column: int, row: int, ink: str, style: Style) -> None:
        rest = ""
        for number, letter in enumerate(text):
            if letter in _PARTS:
                self.blocks[ink] += [_rectangle(column + number, row, 1, part) for part in _PARTS[letter]]
            elif "\u2800" <= letter <= "\u28ff":
                self.dots[ink] += _dots(ord(letter) - 0x2800, column + number, row)
            else:
                rest += letter
                continue
            rest += " "
        if rest.strip():
            look = ' font-weight="bold"' * bool(style.bold) + ' font-style="italic"' * bool(style.italic)
            look += ' text-decoration="underline"' * bool(style.underline)
            place = f'x="{_WIDTH * column}" y="{_HEIGHT * row + 18}" textLength="{_WIDTH * cell_len(rest)}"'
            self.words.append(f'<text {place} fill="{ink}"{look}>{escape(rest)}</text>')


def svg(rows: Sequence[Iterable[Segment]], width: int, title: str) -> str:
    """Rows of segments as the text of an SVG."""
    drawing = _Drawing()
    for number, row in enumerate(rows):
        column = 0
        for segment in row:
            if not segment.control:
                drawing.add(segment, column, number)
                column += cell_len(segment.text)
    size = f"0 0 {_WIDTH * width} {_HEIGHT * len(rows)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" xml:space="preserve">',
        f"<title>{escape(title)}</title>",
        *(f'<path fill="{ink}" shape-rendering="crispEdges" d="{"".join(some)}"/>' for ink, some in _areas(drawing)),
        *(
            f'<path stroke="{ink}" stroke-width="{_DOT}" stroke-linecap="round" d="{"".join(some)}"/>'
            for ink, some in drawing.dots.items()
        ),
        f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{_FONT}">',
        *drawing.words,
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts)


def _areas(drawing: _Drawing) -> Iterator[tuple[str, list[str]]]:
    yield from drawing.grounds.items()
    yield from drawing.blocks.items()


def _rectangle(column: int, row: int, cells: int, part: Part = (0, 0, 8, 8)) -> str:
    left, top, width, height = part
    x, y = _WIDTH * (column + left / 8), _HEIGHT * (row + top / 8)
    across = _WIDTH * (cells - 1 + width / 8)
    return f"M{x:g} {y:g}h{across:g}v{_HEIGHT * height / 8:g}h{-across:g}z"


def _dots(bits: int, column: int, row: int) -> list[str]:
    """The dots of a braille character, as lines of no length with round ends."""
    places = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
    return [
        f"M{_WIDTH * (column + 0.25 + across / 2):g} {_HEIGHT * (row + 0.125 + down / 4):g}h0"
        for bit, (across, down) in enumerate(places)
        if bits >> bit & 1
    ]


def _hex(colour: RichColor | None, *, foreground: bool) -> str:
    theme = DIMMED_MONOKAI
    return (colour or RichColor.default()).get_truecolor(theme, foreground).hex
