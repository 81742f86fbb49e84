"""Prompts: what stands before texts, by the names that models give it, and as model.prompts changes it."""

import re
from collections.abc import Callable, Mapping

from contrastcli.errors import UsageError, Use
from contrastcli.settings.sections import Kind

PROMPT_NAMES: Mapping[Kind, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""The names under which models have a prompt for a kind of text; the first that there is counts."""

MASK_PROMPT, MASK_SUFFIX = 'This sentence of "', '" means [MASK].'
"""What stands around a text where its vector is that of the mask token: PromptBERT (Jiang et al. 2022), Section 4."""

_ROLE = r"\w+="
_OTHERWISE = re.compile(r"\s*(\{.*\}|\w+:\s*,\s*\w+:)\s*")
"""Two prompts as they are written elsewhere: an object of JSON, or one after the other."""


def read_prompts(words: str) -> dict[str, str]:
    """The prompts that model.prompts gives by role: of anchors and of positives, and of negatives if they differ.

    Raises UsageError where one is missing, or a role is unknown.
    """
    if _OTHERWISE.fullmatch(words):
        what = f"model.prompts is '{words}', which would be one prompt of every text"
        raise UsageError(what, Use("--prompts", "anchor=query: ,positive=passage: ", "for two write"))
    typed = dict(part.split("=", 1) for part in re.split(f",(?={_ROLE})", words)) if re.match(_ROLE, words) else {}
    if unknown := next((role for role in typed if role not in ("anchor", "positive", "negative")), None):
        what = f"model.prompts is '{words}', and there is no role '{unknown}'"
        raise UsageError(what, Use("--prompts", "anchor=query: ,positive=passage: "))
    if typed and not {"anchor", "positive"} <= typed.keys():
        what = f"model.prompts is '{words}', without a prompt for the {'positives' if 'anchor' in typed else 'anchors'}"
        raise UsageError(what, Use("--prompts", "anchor=query: ,positive=passage: ", "give both:"))
    return {"negative": typed["positive"]} | typed if typed else {}


def prompted_kinds(prompt: Callable[[Kind | None], str]) -> str:
    """The kinds of text, in words, whose prompt is another than that of texts of no kind; empty for none."""
    kinds: dict[Kind, str] = {"query": "queries", "document": "documents"}
    return " and ".join(names for kind, names in kinds.items() if prompt(kind) != prompt(None))


def all_named(prompts: Mapping[str, str], prompt: Callable[[Kind | None], str]) -> dict[str, str]:
    """The prompts with those of each kind under its first name, which sentence-transformers takes for "" if missing."""
    kinds = {names[0]: prompt(kind) for kind, names in PROMPT_NAMES.items()}
    return {**prompts, **{name: text for name, text in kinds.items() if text}}
