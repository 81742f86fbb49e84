"""A hint is the command that solves the problem: each is typed as it stands, where its error was met."""

import errno
import json
import os
import re
import shlex
import shutil
import stat
from pathlib import Path

import msgspec
import pytest

from contrastcli.errors import RunError
from contrastcli.files import writing_to
from contrastcli.runs.directory import Run
from support.command import LABELLED, SENTENCES, Answer, Contrast, failed, refused, train
from support.disks import full_disk
from support.kills import contents

GRID = ("sweep", *train(*LABELLED)[1:], "--grid", "tau=0.05,0.07", "--name", "mine")
FILE = 'base = "starter"\nseeds = 2\n'


def commands_in(answer: Answer) -> list[list[str]]:
    """The words of each command of the hint."""
    hint = answer.err.splitlines()[-1]
    found = re.findall(r"contrast ((?:--\S+ \S+ )?[a-z]+.*?)(?=; |, or |, remove|, such| and | lists them|$)", hint)
    return [shlex.split(command) for command in found]


@pytest.mark.parametrize(
    ("line", "hinted"),
    [
        ("train --preset simace-grid", "sweep --preset simace-grid"),
        ("train --config grid.toml", "sweep --config grid.toml"),
        ("train --config grid.toml --lr 1e-4", "sweep --config grid.toml --lr 1e-4"),
        ("sweep --resume nothing", "sweep --preset starter --grid tau=0.05,0.06"),
        ("watch", "train --preset starter --no-ui"),
        ("query a b", "train --preset starter --no-ui"),
        ("papers table simace figure-1", "papers figure simace figure-1"),
        ("papers show simace table-99", ""),
        ("encode x.txt", "encode --help"),
        ("presets show foo", "presets"),
        ("config show --set foo=1", "help settings"),
        ("help xyzzy", "help"),
    ],
)
def test_the_command_of_a_hint_can_be_typed(contrast: Contrast, line: str, hinted: str) -> None:
    Path("grid.toml").write_text(FILE)
    answer = contrast(*shlex.split(line))
    assert answer.code in (2, 3)
    first = next(iter(commands_in(answer)), [])
    assert first == shlex.split(hinted)
    if first:
        dry = ["--dry-run"] if first[0] in ("train", "sweep") else []
        typed = contrast(*first, *dry)
        # What this machine does not have is another problem: data and models of the hub, a run.
        assert typed.code == 0 or (typed.code == 3 and first[0] in ("query", "sweep")), typed.err


FILES = {
    "quoted.toml": '[train]\nlr = "1e-5"\n',
    "seeds.toml": "[grid]\nseed = [1, 2]\n",
    "several.toml": "[objective]\ntau = [0.05, 0.06]\n",
    "same.tsv": "premise\thypothesis\tlabel\nba\tda\te\nfa\tga\te\n",
    "more/rows.tsv": "premise\thypothesis\tlabel\n" + "".join(f"ba {n}\tda {n}\t{'enc'[n % 3]}\n" for n in range(200)),
    "python.jsonl": "{'anchor': 'a', 'positive': 'b'}\n" * 3,
    "nested.jsonl": '{"query": {"id": "1", "text": "a b"}, "positive": "c"}\n' * 3,
    "chat.jsonl": '{"turns": [{"role": "user", "content": "a b c"}]}\n' * 3,
    "comma.csv": 'sentence1,sentence2,score\nba,da,"0,5"\nfa,ga,"1"\n',
    "my faq.csv": "anchor,positive\na,b\n",
    "scored.tsv": "sentence1\tsentence2\tscore\na\tb\t2.125\n",
    "titles.csv": "title,body\na,b\nc,d\n",
    "numbers.jsonl": '{"ids": [101, 2023, 102], "title": "ba da", "body": "go"}\n' * 2,
    "vec.npy": "",
    "glove.6B.txt": "dog 1 2\n",
    **{f"{letter}.txt": "" for letter in "abcdefg"},
}


@pytest.mark.parametrize("case", Path(__file__).with_name("hints.txt").read_text(encoding="utf-8").splitlines())
def test_a_command_line_that_is_refused_is_answered_by_what_was_meant(contrast: Contrast, run: Run, case: str) -> None:
    """Words, in which … stands for those of a usual training, and after ⇒ a part of the hint.

    Before it there may be ⊣, the exit code and what is wrong, which a dry run says too, and before there is a run.
    """
    typed, *parts = re.split(" (?:⇒|⊣([23])) ", case)
    code, what = parts[:2] if parts[0] else ("", "")
    hint = parts[-1] if parts[-2] is None else ""
    words = shlex.split(typed)
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    if "several" in typed:
        shutil.copytree("tiny/backbone", "several/checkpoint-500")
    before = contents([Path("runs")])
    for more in ((), ("--dry-run",)) if code and "…" in words else ((),):
        answer = contrast(*(train(*more, *words[2:]) if "…" in words else words))
        assert answer.code in (2, 3)
        (refused if code else failed)(answer, int(code or answer.code), what, hint)
        assert not code or contents([Path("runs")]) == before


@pytest.mark.parametrize(
    ("variable", "ours"),
    [
        ("CONTRAST_TRAIN_LERNING_RATE", "TRAIN_LR'"),
        ("CONTRAST_TRAIN_LEARNING_RATE", "TRAIN_LR'"),
        ("CONTRAST_TRAIN_MAX_SEQ_LENGTH", "MODEL_MAX_LENGTH'"),
        ("CONTRAST_TRAIN_WARMUP_STEPS", "TRAIN_WARMUP', a share of the steps"),
        ("CONTRAST_TRAIN_BACH_SIZE", "TRAIN_BATCH_SIZE'"),
        ("contrast_train_lr", "TRAIN_LR'"),
        ("CONTRAST_LR", "TRAIN_LR'"),
        ("CONTRAST_LEARNING_RATE", "TRAIN_LR'"),
        ("CONTRAST_DATA", "DATA_TRAIN'"),
    ],
)
def test_a_variable_of_no_setting_is_refused(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, variable: str, ours: str
) -> None:
    monkeypatch.setenv(variable, "1")
    monkeypatch.setenv("CONTRAST_MODEL", "starter")
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "1e-4")
    for words in (("config", "show"), ("train", "--resume", "simple"), ("sweep", "--resume", "mine")):
        refused(contrast(*words), 2, variable, f"did you mean 'CONTRAST_{ours}?")


def test_an_error_as_json_quotes_the_runs_directory(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_PROGRESS", "json")
    remedy, _ = json.loads(contrast("--runs-dir", "it's", "query", "a", "b").err)["remedies"]
    assert shlex.split(remedy) == ["contrast", "--runs-dir", "it's", "train", "--preset", "starter", "--no-ui"]


def test_a_name_that_is_taken_is_continued_or_removed(contrast: Contrast, run: Run) -> None:
    answer = contrast(*train(*LABELLED, "--name", "simple"))
    refused(answer, 1, "runs/simple exists", "--name")
    resume, remove = commands_in(answer)
    assert contrast(*resume, "--max-steps", "5").code == 0
    assert contrast(*remove, "--yes").code == 0 and not run.path.exists()
    assert contrast(*train(*LABELLED, "--name", "simple")).code == 0


def test_a_setting_that_a_resume_cannot_change_is_for_a_new_run(contrast: Contrast, run: Run) -> None:
    (new,) = commands_in(contrast("train", "--resume", "simple", "--lr", "0.1", "--max-steps", "3"))
    assert contrast(*new, "--no-ui", "--name", "other").code == 0
    settings = Run(Path("runs/other")).config().train
    assert (settings.lr, settings.max_steps) == (0.1, 3)


def test_an_adapter_without_its_base_is_resumed_once_that_is_linked(contrast: Contrast) -> None:
    shutil.copytree("tiny/backbone", "base")
    lora = train(*SENTENCES, "--backbone", "base", "--lora", "2", "--name", "small", "--no-ui")
    assert contrast(*lora).code == 0
    Path("base").rename("moved")
    answer = contrast("train", "--resume", "small", "--max-steps", "3", "--no-ui")
    link = re.search(r"link to it: ln -s FOLDER (\S+)", answer.err)
    assert answer.code == 3 and link, answer.err
    Path(link[1]).symlink_to("moved")
    assert contrast("train", "--resume", "small", "--max-steps", "3", "--no-ui").code == 0


def test_a_cell_that_has_changed_is_removed_and_trained_again(contrast: Contrast, launched: list[str]) -> None:
    assert contrast(*GRID).code == 0
    cell = Run(Path("runs/mine-tau=0.05"))
    cell.config_path.write_text(cell.config_path.read_text().replace("tau = 0.05", "tau = 0.06"))
    (remove,) = commands_in(contrast("sweep", "--resume", "mine"))
    assert contrast(*remove, "--yes").code == 0
    assert contrast("sweep", "--resume", "mine").code == 0 and launched[-1] == cell.name


def test_a_new_sweep_of_a_name_that_is_taken_says_by_what(contrast: Contrast, launched: list[str]) -> None:
    assert contrast(*GRID).code == 0
    (again,) = commands_in(contrast(*GRID))
    assert contrast(*again).code == 0 and len(launched) == 2
    assert commands_in(contrast("train", "--resume", "mine")) == [again]
    Path("runs/mine.sweep.toml").unlink()
    (remove,) = commands_in(contrast(*GRID))
    assert remove == ["runs", "rm", "mine-tau=0.05"]


def test_a_name_of_a_run_in_progress_is_watched_or_stopped(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = msgspec.structs.replace(run.status(), state="running")
    monkeypatch.setattr(Run, "status", lambda self: live)
    answer = contrast(*train(*LABELLED, "--name", "simple"))
    refused(answer, 1, "runs/simple exists, and is in progress", "choose another --name")
    assert commands_in(answer) == [["watch", "simple"], ["stop", "simple"]]


def test_a_run_and_a_sweep_do_not_share_a_name(contrast: Contrast, run: Run, launched: list[str]) -> None:
    answer = contrast(*GRID[:-1], "simple")
    refused(answer, 1, "runs/simple exists", "choose another --name")
    assert commands_in(answer) == [["runs", "rm", "simple"]] and not launched
    run.config_path.unlink()
    refused(contrast(*GRID[:-1], "simple"), 1, "runs/simple exists and is no run", "remove it: rm -r runs/simple")


def test_a_preset_is_the_base_of_a_file(contrast: Contrast) -> None:
    Path("mine.toml").write_text("[train]\nseed = 7\n")
    hint = contrast("config", "show", "--preset", "starter", "--config", "mine.toml").err.splitlines()[-1]
    line = re.search(r'base = "starter"', hint)
    assert line
    Path("mine.toml").write_text(f"{line[0]}\n{Path('mine.toml').read_text()}")
    assert contrast("config", "show", "--config", "mine.toml").code == 0


def test_settings_outside_of_their_sections_are_written_with_them(contrast: Contrast) -> None:
    Path("contrast.toml").write_text("learning_rate = 0.1\nepochs = 2\n")
    keys = re.findall(r"(\S+) = …", contrast("config", "show").err)
    Path("contrast.toml").write_text("".join(f"{key} = {value}\n" for key, value in zip(keys, (0.1, 2), strict=True)))
    shown = contrast("config", "show").out
    assert re.search(r"^train\.lr +0\.1 ", shown, re.M) and re.search(r"^train\.epochs +2 ", shown, re.M)
    Path("contrast.toml").write_text("anything = 1\n")
    assert "sections: [objective] [model]" in contrast("config", "show").err


def test_the_columns_of_a_hint_can_be_typed_whatever_they_are_called(contrast: Contrast) -> None:
    lines = [f"{n};How do I mend the number {n}?;{'Call us. ' * 60}{n};de" for n in range(40)]
    Path("kb.csv").write_text("\n".join(["Nr;Frage / Question;Antwort (final);$Lang", *lines]))
    words = train("--objective", "simcse", "--data", "kb.csv", "--dry-run")
    hint = contrast(*words).err.splitlines()[-1]
    option, value = shlex.split(hint)[3:5]
    assert option == "--columns"
    shown = contrast(*words, option, value.rstrip(","))
    assert shown.code == 0 and "How do I mend the number 0?" in shown.out
    assert max(map(len, shown.out.splitlines())) < 320, "long texts are cut"
    half = contrast(*words, "--columns", "anchor=Frage,positive=Antwort (final)").err
    assert "has no column 'Frage'" in half and "did you mean 'Frage / Question'?" in half


@pytest.mark.parametrize("is_own", [True, False])
def test_what_is_closed_is_opened_by_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_own: bool) -> None:
    monkeypatch.chdir(tmp_path)
    # Permissions hold for the tests' user too, who may be root.
    monkeypatch.setattr(os, "access", lambda path, mode: bool(Path(path).stat().st_mode & stat.S_IWUSR))
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + (not is_own))
    Path("my out").mkdir(mode=0o555)
    with pytest.raises(RunError) as error, writing_to(Path("my out/v.npy")):
        raise PermissionError(errno.EACCES, "Permission denied", "my out/v.npy")
    assert error.value.hint == ("chmod u+w 'my out'" if is_own else "name a folder of your own")


def test_a_full_disk_is_named_with_what_other_runs_keep_on_it(
    contrast: Contrast, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("contrastcli.training.checkpoint.save_encoder", full_disk)
        answer = contrast(*train(*LABELLED, "--name", "big"))
        prune, elsewhere = commands_in(answer)
        assert answer.code == 1 and "make room on the disk of /" in answer.err and " MB are free" in answer.err
        assert prune == ["runs", "prune", "simple"] and "freed" in contrast(*prune).err
        assert commands_in(contrast("train", "--resume", "big")) == [elsewhere], "nothing is left to be freed"
    assert contrast(*(word.replace("DIR", "other") for word in elsewhere), "--no-ui").code == 0
