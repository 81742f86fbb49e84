"""Training rows that hold a text of the dev set, which would make its score too good."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np

from contrastcli.data.examples import Examples, text_key
from contrastcli.errors import DataError, Use

_SHOWN_TEXTS, _SHOWN_CHARACTERS = 3, 60


def check_leaks(train: Examples, texts: Iterable[str], leaks: Literal["note", "drop", "error"]) -> Examples:
    """The training rows, with a note on those that hold one of the texts, or without them.

    Case and white space make no difference. Raises DataError where `leaks` is "error", or drops all rows but one.
    """
    known = {key for key in map(text_key, texts) if key}
    first_spelling: dict[str, str] = {}
    is_clean, only_negative = np.ones(len(train), bool), np.zeros(len(train), bool)
    # Negatives are the last of the views.
    for view, column in train.views.items():
        for row, text in enumerate(column):
            if (key := text_key(text)) in known:
                only_negative[row] |= is_clean[row] and view.startswith("negative")
                is_clean[row] = False
                first_spelling.setdefault(key, text)
    if not first_spelling:
        return train
    shown = ", ".join(map(_excerpt, list(first_spelling.values())[:_SHOWN_TEXTS]))
    count = int((~is_clean).sum())
    where = f", {only_negative.sum():,} of them in a negative alone" if only_negative.any() else ""
    what = f"{count:,} of {len(train):,} training rows hold a text of the dev set{where}: {shown}"
    more = f" and {len(first_spelling) - _SHOWN_TEXTS:,} more" if len(first_spelling) > _SHOWN_TEXTS else ""
    if leaks == "note":
        return replace(train, notes=(*train.notes, f"{what}{more}; --leaks drop leaves these rows out"))
    if leaks == "error":
        raise DataError(what + more, ["name other dev data", Use("--leaks", "drop", "leave these rows out with")])
    if len(train) - count < 2:
        what = f"{what}{more}; without them too few are left to train on"
        raise DataError(what, ["name other dev data", Use("--leaks", "note", "train on these rows with")])
    return train.take(is_clean, (f"{what}{more}; they were dropped",))


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return f"'{text}'" if len(text) <= _SHOWN_CHARACTERS else f"'{text[: _SHOWN_CHARACTERS - 1]}…'"
