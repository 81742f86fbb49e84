"""What papers and other software call our objectives, settings, options and commands (other_names.toml), for hints."""

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import msgspec


def our_name(word: str, place: str = "") -> str:
    """What a word at a `place` means elsewhere by our name: `train.warmup, a share of the steps`; else the word."""
    ours = _ours(place)
    close = get_close_matches(_plain(word.rpartition(".")[2]), ours, 1, 0.9)
    return ours[close[0]] if close else word


@cache
def _ours(place: str) -> dict[str, str]:
    path = Path(__file__).with_name("other_names.toml")
    table: dict[str, Any] = msgspec.toml.decode(path.read_bytes())
    own: dict[str, list[str]] = table.pop("in").get(place, {})
    return {_plain(word): ours for names in (table, own) for ours, words in names.items() for word in words}


def _plain(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower()).removeprefix("cached").removesuffix("loss") or "loss"
