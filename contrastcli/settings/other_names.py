"""What papers and other software call our objectives and settings (other_names.toml), for hints."""

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import msgspec


def our_name(word: str) -> str:
    """Our name of an objective, key of a setting, or option for a word that means it elsewhere; else the word."""
    return name_and_remark(word)[0]


def name_and_remark(word: str) -> tuple[str, str]:
    """The same, and how its values differ from those elsewhere, as `, a share of the steps`."""
    close = get_close_matches(_plain(word.rpartition(".")[2]), _ours(), 1, 0.9)
    name, comma, remark = _ours()[close[0]].partition(", ") if close else (word, "", "")
    return name, comma + remark


@cache
def _ours() -> dict[str, str]:
    path = Path(__file__).with_name("other_names.toml")
    table = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[str]])
    return {_plain(word): ours for ours, words in table.items() for word in words}


def _plain(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower()).removeprefix("cached").removesuffix("loss") or "loss"
