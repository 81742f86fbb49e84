"""`contrast config`, `presets` and `doctor`: every setting with its source, every preset, the machine."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from contrastcli.commands.doctor import EXTRAS
from contrastcli.files import user_file
from contrastcli.settings import presets
from support.command import Contrast


def sources(contrast: Contrast, *words: str) -> dict[str, tuple[object, str]]:
    """Value and source of every setting, as `config show` has them."""
    settings = json.loads(contrast("config", "show", "--json", *words).out)["settings"]
    return {key: (setting["value"], setting["source"]) for key, setting in settings.items()}


def test_a_value_comes_from_the_highest_place_that_names_it(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, preset = "train.lr", ("--preset", "simace-bert-base")
    assert sources(contrast)[key] == (3e-5, "default")
    path = Path(contrast("config", "path").out.strip())
    assert path == user_file() and not path.exists()
    path.parent.mkdir(parents=True)
    path.write_text("[train]\nlr = 1e-3\n")
    assert sources(contrast)[key] == (1e-3, str(user_file()))
    Path("contrast.toml").write_text("[train]\nlr = 2e-3\n")
    assert sources(contrast)[key] == (2e-3, "contrast.toml")
    assert sources(contrast, *preset)[key][1] == "preset simace-bert-base"
    Path("mine.toml").write_text("[train]\nlr = 3e-3\n")
    assert sources(contrast, "--config", "mine.toml")[key] == (3e-3, "mine.toml")
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "4e-3")
    assert sources(contrast, *preset)[key] == (4e-3, "CONTRAST_TRAIN_LR")
    assert sources(contrast, *preset, "--lr", "5e-3")[key] == (5e-3, "--lr")
    assert sources(contrast, *preset, "--set", "train.lr=6e-3")[key] == (6e-3, "--set train.lr")
    assert sources(contrast, *preset, "--seed", "1")[key] == (4e-3, "CONTRAST_TRAIN_LR")


def test_notes_on_settings_are_shown_with_them_and_by_the_doctor(contrast: Contrast) -> None:
    Path("contrast.toml").write_text("[train]\nlr = 0.5\n")
    note = "train.lr is 0.5, outside of what is usual, 1e-07 to 0.01 (contrast.toml)"
    assert contrast("config", "show").out.endswith(f"\n\nnote  {note}\n")
    assert contrast("doctor").err == f"note: {note}\n"


def test_presets_fit_a_terminal_and_name_every_file(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = contrast("presets").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*presets.names(), *presets.sweep_names()]
    assert max(map(len, lines)) <= 80
    assert contrast("presets", "list").out.splitlines() == lines
    monkeypatch.setenv("COLUMNS", "30")
    assert len(contrast("presets").out.splitlines()) == len(lines)
    monkeypatch.delenv("COLUMNS")
    assert " …\n" not in contrast("presets").out  # in a pipe
    whole = json.loads(contrast("presets", "list", "--json").out)
    assert list(whole) == [*presets.names(), *presets.sweep_names()] and all(whole.values())


def test_a_preset_is_shown_as_a_file_that_says_the_same(contrast: Contrast) -> None:
    for name in (*presets.sweep_names(), *presets.names()):
        Path("copy.toml").write_text(contrast("presets", "show", name).out, encoding="utf-8")
        copy, preset = presets.read(Path("copy.toml")), presets.find(name)
        assert (copy.about, copy.grid, copy.seeds) == (preset.about, preset.grid, preset.seeds)
        assert [point.flat() for point in copy.points()] == [point.flat() for point in preset.points()]
        if name in presets.names():
            assert list(copy.values.items()) == list(preset.values.items())
    first, second = sources(contrast, "--preset", name), sources(contrast, "--config", "copy.toml")
    assert {key: first[key][0] for key in first} == {key: second[key][0] for key in second}


def test_a_preset_is_shown_with_what_was_published_of_it_and_the_memory_that_it_takes(contrast: Contrast) -> None:
    shown = contrast("presets", "show", "pairsupcon-large").out.splitlines()
    assert shown[:5] == [
        "# published: clustering 64.7 (PairSupCon, Table 1: PairSupCon on BERT-large, one seed)",
        "# published: sts 81.5 (PairSupCon, Table 3: PairSupCon on BERT-large, one seed)",
        "# published: transfer 88.5 (PairSupCon, Table 7: PairSupCon on BERT-large, one seed)",
        "# GPU memory, estimated: 97 GB, of which 5.3 GB for weights, gradients and Adam, and at most 90.2 GB for the "
        "activations of 65,536 tokens",
        "# with train.token_budget = 8192 and one more forward pass: 18 GB",
    ]
    averages = [line for line in contrast("presets", "show", "simace-margins").out.splitlines() if " sts " in line]
    assert [line.split()[3] for line in averages] == ["78.20", "77.46", "77.08", "73.46"]
    assert "not comparable): SUBJ is 99.6 for every model" in contrast("presets", "show", "supcon-medium").out
    assert contrast("presets", "show", "starter").out.startswith("[about]\n")


def test_the_doctor_names_versions_device_and_folders(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    report = json.loads(contrast("doctor", "--json").out)
    assert {"contrast", "python", "torch", "device", "precision", "runs", "cache", "hub"} <= report.keys()
    assert report["runs"] == "runs (writable)" and report["hub"].startswith("offline")
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"test", "dev"}
    states = {report[extra].replace(extra, "EXTRA") for extra in extras}
    assert extras == EXTRAS.keys() and states <= {"installed", 'pip install "contrastcli[EXTRA]"'}
    text = contrast("doctor").out
    assert all(str(value) in text for value in report.values())
    Path("logged").mkdir()
    monkeypatch.syspath_prepend(".")
    monkeypatch.setitem(EXTRAS, "mine", "logged")
    assert json.loads(contrast("doctor", "--json").out)["mine"].startswith("pip install")


@pytest.mark.parametrize("variable", ["CONTRAST_RUNS", "CONTRAST_CACHE"])
def test_the_doctor_fails_where_nothing_can_be_written(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    Path("file").touch()
    monkeypatch.setenv(variable, "file/below")
    answer = contrast("doctor", "--json")
    assert answer.code == 1 and "file/below (not writable)" in json.loads(answer.out).values()
    error, hint = answer.err.splitlines()
    assert "file/below cannot be written" in error and "name another folder: " in hint


MAKERS: dict[str, Callable[[Path], object]] = {
    "contrast.toml is a folder": Path.mkdir,
    "contrast.toml is larger than 16,384 bytes": lambda path: path.write_text("#" * 40_000),
    "contrast.toml cannot be read: No such file": lambda path: path.symlink_to("nowhere"),
    "contrast.toml: base stands in [train]": lambda path: path.write_text('[train]\nbase = "starter"\n'),
    "contrast.toml: 'preset' is called base in a file": lambda path: path.write_text('preset = "starter"\n'),
    "contrast.toml is not TOML: line 2 is not UTF-8": lambda path: path.write_bytes(b"[data]\ntrain = '\xe4.tsv'\n"),
}


@pytest.mark.parametrize("what", MAKERS)
def test_a_contrast_toml_that_cannot_be_read_is_not_passed_over(contrast: Contrast, what: str) -> None:
    MAKERS[what](Path("contrast.toml"))
    answer = contrast("config", "show")
    assert answer.code in (2, 3) and what in answer.err
    is_read = "UTF-8" in what or "base" in what
    assert is_read or answer.err.endswith("move it away: mv contrast.toml contrast.toml.unused\n")


def test_the_doctor_fails_where_settings_are_wrong(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("contrast.toml").write_text("[train\n")
    answer = contrast("doctor", "--json")
    assert answer.code == 2 and json.loads(answer.out) and "contrast.toml is not TOML" in answer.err
    Path("contrast.toml").unlink()
    monkeypatch.setenv("CONTRAST_LR", "1e-4")
    answer = contrast("doctor", "--json")
    assert answer.code == 2 and "CONTRAST_LR" in json.loads(answer.out)["variables"]
