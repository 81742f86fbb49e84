"""What is meant by words that a command does not know, and examples of what it knows."""

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from contrastcli.runs.directory import Run
from contrastcli.settings import catalogue, presets, sections
from contrastcli.settings.other_names import our_name


def our_options(words: Sequence[str], known: Collection[str]) -> dict[str, str]:
    """Options of other software among the words, each with that of the `known` ones which means it, and its value."""
    typed = dict.fromkeys(word.partition("=")[0] for word in words if word.startswith("--"))
    return {word: ours for word in typed if word not in known and (ours := _our_option(word, known))}


def _our_option(word: str, known: Collection[str]) -> str:
    (ours, *remark), every = our_name(word).split(", "), sections.all_settings()
    words = every[ours].words("VALUE") if ours in every else [ours, "VALUE"]
    return ", ".join([" ".join(words), *remark]) if words[0] in known and words[0] != word else ""


def in_its_place(rest: Sequence[str], known: Collection[str], given: Mapping[str, Any], directory: Path) -> str:
    """The first of the words that stand without an option behind one of the `known`; "" where none takes it.

    `given` are the parameters of the command by name.
    """
    word, axis = rest[0], (given.get("axes") or [""])[-1]
    if "--set" not in known:
        return f"--model {word}" if "--model" in known else ""
    if axis and "=" not in axis:
        return f"--grid {axis}={','.join(rest)}"
    if "=" in word:
        return f"--grid {word}" if "--grid" in known else _assigned(word)
    if word in presets.names():
        return f"--preset {word}"
    if our_name(word) in {spec.name for spec in catalogue.all_objectives()}:
        return f"--objective {our_name(word)}"
    run, data = Run(directory / word), ",".join([*(given.get("data__train") or ()), *rest])
    of_run = f"--resume {word}" if "--resume" in known else f"--config {run.config_path}"
    return of_run if run.exists() else f"--data {data}"


def _assigned(word: str) -> str:
    key, _, value = word.partition("=")
    names = (key, our_name(key), f"--{key.replace('_', '-')}")
    meant = (one for one in sections.all_settings().values() if one.key in names or one.flag in names)
    return " ".join(next((one.words(value) for one in meant), ["--set", word]))


def choice(word: str, known: Sequence[str]) -> str:
    """The one of some values that is meant by a word, or is nearest to it."""
    meant = our_name(word)
    return meant if meant in known else get_close_matches(word, known, 1, 0)[0]


def examples(command: str) -> list[str]:
    """The command lines that show how a command is used, which stand in examples.txt below its name."""
    text = Path(__file__).with_name("examples.txt").read_text(encoding="utf-8")
    paragraphs = (paragraph.splitlines() for paragraph in text.split("\n\n"))
    return next(([line.strip() for line in lines] for name, *lines in paragraphs if name == command), [])
