"""Presets as people read them: a list of what they are, and one as a file to copy."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from contrastcli.settings import presets, published
from contrastcli.settings.memory import estimate
from contrastcli.settings.presets import Preset
from contrastcli.show.format import as_json, table, terminal_width

_SMALL_BUDGET = 8192  # tokens, suggested where memory is short


def listing(to_json: bool) -> str:
    """All presets, those of sweeps last, with what they are, cut to the terminal's width."""
    what = {name: presets.find(name).about.what for name in (*presets.names(), *presets.sweep_names())}
    if to_json:
        return as_json(what)
    room = terminal_width() - max(map(len, what)) - 2
    return table(("preset", "what"), [(name, shorten(text, room, placeholder=" …")) for name, text in what.items()])


def preset(shown: Preset) -> str:
    """A file for `--config`, under comments with what follows from its settings: published results and memory."""
    comments = "\n".join(f"# {line}" for line in (*_published(shown), *_memory(shown)))
    return "\n\n".join(filter(None, [comments, shown.to_toml().rstrip()]))


def _published(shown: Preset) -> Iterator[str]:
    """A line for each average that a paper reports of these settings."""
    rows = {row.words: row for config in shown.points() for row in published.exact(config) if row.average}
    for words, row in rows.items():
        reason = f": {row.note}" if row.mark == "not comparable" else ""
        yield f"published: {row.suite} {row.average} ({words}){reason}"


def _memory(shown: Preset) -> Iterator[str]:
    """What a GPU must have, and what is enough with a smaller token budget."""
    full, small = (estimate(shown.config, shown.about.texts, *budget) for budget in ((), (_SMALL_BUDGET,)))
    if full and small:
        yield (
            f"GPU memory, estimated: {full.total} GB, of which {full.weights:.1f} GB for weights, gradients and Adam, "
            f"and at most {full.activations:.1f} GB for the activations of {full.tokens:,} tokens"
        )
        if small.total < full.total:
            yield f"with train.token_budget = {_SMALL_BUDGET} and one more forward pass: {small.total} GB"
