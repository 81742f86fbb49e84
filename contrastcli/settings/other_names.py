"""What papers and other software call our objectives and settings (other_names.toml), for hints."""

import re
from functools import cache
from pathlib import Path

import msgspec


def our_name(word: str) -> str:
    """Our name of an objective, key of a setting, or option for a word that means it elsewhere; else the word."""
    return _ours().get(_plain(word.rpartition(".")[2]), word)


@cache
def _ours() -> dict[str, str]:
    path = Path(__file__).with_name("other_names.toml")
    table = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[str]])
    return {_plain(word): ours for ours, words in table.items() for word in words}


def _plain(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower()).removesuffix("loss") or "loss"
