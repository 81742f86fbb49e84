"""The list that every choice of the app is made from: what it shows for what is typed."""

from pathlib import Path

import pytest

from contrastcli.tui.fields.choice_field import narrowed
from contrastcli.tui.fields.completion import complete_path, complete_sets, data_files

OBJECTIVES = [("pairsupcon", "takes labelled"), ("simcse", "takes sentences"), ("supcon", "takes labelled")]
PRESETS = [("starter", "small"), ("simace-base", "on BERT"), ("simace", "plain"), ("", "every setting at its default")]


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("", ["pairsupcon", "simcse", "supcon"]),
        ("supcon", ["supcon", "pairsupcon"]),
        ("SUP", ["supcon", "pairsupcon"]),
        ("s", ["simcse", "supcon", "pairsupcon"]),
        ("labelled", ["pairsupcon", "supcon"]),
        ("takes pair", ["pairsupcon"]),
        ("nothing", []),
    ],
)
def test_an_exact_name_comes_first_then_names_that_begin_so_then_the_rest(typed: str, names: list[str]) -> None:
    assert [name for name, _ in narrowed(OBJECTIVES, typed)] == names


def test_the_empty_value_is_found_by_the_word_that_stands_for_it() -> None:
    assert narrowed(PRESETS, "nothing", blank="nothing") == [("", "every setting at its default")]
    assert [name for name, _ in narrowed(PRESETS, "simace")] == ["simace", "simace-base"]


def test_the_last_of_several_files_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("questions.csv", "quiz.csv", "a,b.csv"):
        Path(name).write_text("x")
    assert [name for name, _ in complete_sets("qui")] == ["quiz.csv"]
    assert [name for name, _ in complete_sets("a.csv=2, qu")] == ["a.csv=2,questions.csv", "a.csv=2,quiz.csv"]
    assert [name for name, _ in complete_sets("a,b")] == ["a,b.csv"]


def test_the_files_of_data_in_the_folder_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("texts.txt", "pairs.csv.gz", *(f"image {n}.png" for n in range(300))):
        (tmp_path / name).write_text("a")
    (tmp_path / "gone.csv").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    assert [name for name, _ in data_files()] == ["pairs.csv.gz", "texts.txt"]
    assert not complete_path("~no-such-user/x")
