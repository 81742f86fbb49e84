"""What papers and other software call our objectives and settings (other_names.toml), for hints."""

import re
from difflib import get_close_matches
from functools import cache
from pathlib import Path

import msgspec


def our_name(word: str) -> str:
    """What a word means elsewhere by our name, such as `train.warmup, a share of the steps`; else the word."""
    close = get_close_matches(_plain(word.rpartition(".")[2]), _ours(), 1, 0.9)
    return _ours()[close[0]] if close else word


@cache
def _ours() -> dict[str, str]:
    path = Path(__file__).with_name("other_names.toml")
    table = msgspec.toml.decode(path.read_bytes(), type=dict[str, list[str]])
    return {_plain(word): ours for ours, words in table.items() for word in words}


def _plain(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower()).removeprefix("cached").removesuffix("loss") or "loss"
