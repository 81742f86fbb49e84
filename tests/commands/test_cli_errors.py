"""Bad settings and bad data are told in two lines on stderr, nothing on stdout, and the right exit code."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from contrastcli.runs import directory as runs
from support.command import LABELLED, SENTENCES, Contrast, refused, train

TRAINING_FILES: dict[str, tuple[str, bytes, str]] = {
    "empty": ("rows.txt", b"", "rows.txt is empty"),
    "no rows below the header": ("rows.csv", b"sentence\n", "rows.csv has no rows"),
    "not UTF-8": ("rows.txt", b"one\ncaf\xe9\n", "rows.txt, line 2: not UTF-8"),
    "a NUL byte": ("rows.txt", b"one\nt\0o\n", "rows.txt, line 2: holds a NUL"),
    "ragged": ("rows.csv", b"anchor,positive\na,b\nc\n", "rows.csv, line 3: 1 fields"),
    "an unclosed quote": ("rows.csv", b'anchor,positive\na,"b\nc,d\n', "rows.csv, line 2: a quote opens"),
    "missing columns": ("rows.csv", b"foo,bar\na,b\nc,d\n", "'foo', 'bar' make neither"),
    "ambiguous columns": ("rows.csv", b"anchor,premise,positive\na,b,c\n", "'anchor' and 'premise' could both be"),
    "a column twice": ("rows.csv", b"anchor,anchor\na,b\n", "'anchor' occurs twice"),
    "a blank sentence": ("rows.txt", b"one\n   \nthree\n", "rows.txt, line 2: the sentence"),
    "a missing sentence": ("rows.jsonl", b'{"text": "a"}\n{"text": null}\n', "rows.jsonl, line 2: the sentence"),
    "a number for a sentence": ("rows.jsonl", b'{"text": "a"}\n{"text": 3}\n', "rows.jsonl, line 2"),
    "one sentence": ("rows.txt", b"one\n", "one sentence only"),
    "one sentence again and again": ("rows.txt", b"one\none\none\n", "one sentence only"),
    "not JSON": ("rows.jsonl", b'{"text": "a"}\n{"text"\n', "rows.jsonl, line 2: not JSON"),
    "other keys": ("rows.jsonl", b'{"text": "a"}\n{"txet": "b"}\n', "rows.jsonl, line 2: has the keys txet"),
    "half a gzip file": ("rows.txt.gz", gzip.compress(b"one\ntwo\n" * 99)[:20], "not a whole gzip file"),
    "not a gzip file": ("rows.txt.gz", b"one\ntwo\n", "not a whole gzip file"),
    "not parquet": ("rows.parquet", b"PAR1", "cannot be read as parquet"),
    "an unknown format": ("rows.docx", b"one\ntwo\n", "no format that is known"),
    "scored pairs": ("rows.csv", b"sentence1,sentence2,score\na,b,1\nc,d,2\n", "holds scored pairs"),
    "STS-B as published": ("rows.csv", b"g\tf\t2012\t1\t2.5\ta\tb\n" * 2, "holds scored pairs"),
    "SICK as published": (
        "rows.txt",
        b"pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\ta\tb\t3\tNEUTRAL\n",
        "holds scored pairs",
    ),
}


@pytest.mark.parametrize("case", TRAINING_FILES)
def test_training_data_that_is_no_good_is_named_by_file_and_line(contrast: Contrast, case: str) -> None:
    name, content, what = TRAINING_FILES[case]
    Path(name).write_bytes(content)
    refused(contrast(*train("--objective", "simcse", "--data", name)), 3, what)
    assert not Path("runs").exists()


DEV_FILES: dict[str, tuple[bytes, str]] = {
    "a score that is text": (b"sentence1,sentence2,score\na,b,1\nc,d,high\n", "dev.csv, line 3: the score"),
    "a score that is no number": (b"sentence1,sentence2,score\na,b,nan\nc,d,1\n", "dev.csv, line 2: the score"),
    "scores all the same": (b"sentence1,sentence2,score\na,b,1\nc,d,1\n", "all 2 scores are 1"),
    "no scores": (b"sentence1,sentence2\na,b\nc,d\n", "holds pairs (anchor, positive), not scored pairs"),
}


@pytest.mark.parametrize("case", DEV_FILES)
def test_dev_data_that_is_no_good_is_named_by_file_and_line(contrast: Contrast, case: str) -> None:
    content, what = DEV_FILES[case]
    Path("dev.csv").write_bytes(content)
    refused(contrast(*train(*LABELLED, "--dev", "dev.csv")), 3, what)


def test_labels_that_are_numbers_need_their_names(contrast: Contrast) -> None:
    Path("nli.csv").write_text("premise,hypothesis,label\na,b,0\na,c,2\n")
    refused(
        contrast(*train("--data", "nli.csv")), 3, "nli.csv, line 2: the label", "0=entailment,1=neutral,2=contradiction"
    )


BAD_VALUES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "a batch larger than the data": ((*LABELLED, "--batch-size", "161"), 2, "batch_size is 161, but the data has 160"),
    "tau 0": ((*LABELLED, "--tau", "0"), 2, "objective.tau is 0.0 (--tau)"),
    "tau below 0": ((*LABELLED, "--tau", "-1"), 2, "objective.tau is -1.0"),
    "tau not a number": ((*LABELLED, "--tau", "nan"), 2, "objective.tau is nan"),
    "lambda beyond 1": (("--objective", "supcon", *LABELLED, "--lambda", "1.5"), 2, "objective.lambda is 1.5"),
    "a margin of 200 degrees": (
        (*SENTENCES, "--similarity", "angle", "--margin", "200"),
        2,
        "objective.margin is 200.0",
    ),
    "a margin of 10 of cosine": ((*SENTENCES, "--margin", "10"), 2, "objective.margin is 10.0"),
    "a rate that is no number": ((*LABELLED, "--lr", "nan"), 2, "train.lr is nan"),
    "an infinite rate": ((*LABELLED, "--lr", "inf"), 2, "train.lr is inf"),
    "a rate that is text": ((*LABELLED, "--lr", "fast"), 2, "train.lr is 'fast'"),
    "half a batch": ((*LABELLED, "--batch-size", "1.5"), 2, "train.batch_size is '1.5'"),
    "no batch": ((*LABELLED, "--batch-size", "0"), 2, "train.batch_size is 0"),
    "a huge batch": ((*LABELLED, "--batch-size", "9" * 30), 2, "train.batch_size is 999"),
    "a huge number of digits": ((*LABELLED, "--batch-size", "9" * 5000), 2, "train.batch_size is"),
    "a seed below 0": ((*LABELLED, "--seed", "-1"), 2, "train.seed is -1"),
    "a limit below 0": ((*LABELLED, "--set", "data.limit=-1"), 2, "data.limit is -1 (--set data.limit)"),
    "a huge limit": ((*LABELLED, "--set", "data.limit=" + "9" * 30), 2, "data.limit is 999"),
    "neither true nor false": (("--objective", "supcon", *LABELLED, "--normalize", "maybe"), 2, "normalize is 'maybe'"),
    "an unknown pooling": ((*LABELLED, "--pooling", "max"), 2, "model.pooling is 'max'"),
    "an unknown objective": ((*LABELLED, "--objective", "pairsup"), 2, "pairsup"),
    "another objective's setting": (
        (*SENTENCES, "--beta", "1"),
        2,
        "the objective 'simcse' has no setting 'objective.beta'",
    ),
    "an unknown key": ((*LABELLED, "--set", "train.btch_size=3"), 2, "there is no setting 'train.btch_size'"),
    "a key without a section": ((*LABELLED, "--set", "lr=3"), 2, "there is no setting 'lr'"),
    "no equals sign": ((*LABELLED, "--set", "train.lr"), 2, "--set train.lr has no value"),
    "an unknown option": ((*LABELLED, "--bach-size", "3"), 2, "No such option '--bach-size'"),
    "an option without its value": ((*LABELLED, "--tau"), 2, "'--tau' requires an argument"),
    "a word too many": ((*LABELLED, "again"), 2, "unexpected extra argument"),
    "an unknown preset": (("--preset", "simace-bert-bas"), 2, "there is no preset 'simace-bert-bas'"),
    "preset and config": (("--preset", "simace-bert-base", "--config", "x.toml"), 2, "exclude each other"),
    "a config that is not there": (("--config", "x.toml"), 3, "x.toml cannot be read"),
    "a config that is a folder": (("--config", "tiny"), 3, "tiny cannot be read"),
    "an unknown device": ((*LABELLED, "--device", "gpu"), 2, "train.device is 'gpu'"),
    "a device that is not here": ((*LABELLED, "--device", "cuda:99"), 2, "train.device is 'cuda:99'"),
    "a device without memory": ((*LABELLED, "--device", "meta"), 2, "train.device is 'meta'"),
    "an empty run name": ((*LABELLED, "--name", ""), 2, "a run cannot be named ''"),
    "an empty preset": (("--preset", ""), 2, "there is no preset ''"),
    "an empty run to resume": (("--resume", ""), 3, "there is no run in runs"),
    "a bad run name": ((*LABELLED, "--name", "../x"), 2, "a run cannot be named '../x'"),
    "no data": ((), 2, "data.train is not set"),
    "data that is not there": (("--data", "tiny/labeled.jsonl"), 3, "there is no file or folder tiny/labeled.jsonl"),
    "a malformed hub name": (("--data", "hf:owner"), 2, "'hf:owner' is not a hub name"),
    "a hub data set offline": (("--data", "hf:nobody/nothing"), 3, "hf:nobody/nothing"),
    "a column that is not there": ((*LABELLED, "--set", "data.columns=anchor=foo"), 3, "has no column 'foo'"),
    "the wrong kind of rows": (("--data", "tiny/sentences.jsonl"), 3, "the objective needs labelled pairs"),
    "a share of sentences": ((*SENTENCES, "--dev", "split:5%"), 3, "cannot be held out as dev data"),
    "a share that is none": ((*LABELLED, "--dev", "split:five"), 2, "dev.data is 'split:five'"),
    "a backbone that is no folder": ((*LABELLED, "--backbone", "./nowhere"), 3, "there is no folder './nowhere'"),
    "a backbone that is a file": ((*LABELLED, "--backbone", "tiny/dev.jsonl"), 3, "is a file"),
    "a backbone that is not here": ((*LABELLED, "--backbone", "nobody/nothing"), 3, "HF_HUB_OFFLINE is set"),
    "events of a detached run": ((*LABELLED, "--detach", "--json"), 2, "--detach leaves no events"),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_a_bad_value_is_refused_before_there_is_a_run(contrast: Contrast, case: str) -> None:
    words, code, what = BAD_VALUES[case]
    refused(contrast(*train(*words)), code, what)
    assert not Path("runs").exists()


def test_unknown_words_name_the_nearest_known_one(contrast: Contrast) -> None:
    refused(contrast("trian"), 2, "there is no command 'trian'", "'train'")
    refused(contrast("runs", "lst"), 2, "there is no command 'lst'", "'list'")
    refused(contrast(*train("--set", "train.btch_size=3")), 2, "train.btch_size", "'train.batch_size'")
    refused(contrast("presets", "show", "simace-bert-bas"), 2, "simace-bert-bas", "'simace-bert-base'")
    refused(contrast("eval", "tiny/backbone", "--suite", "stss"), 2, "there is no suite 'stss'", "'sts'")


TOML: dict[str, tuple[str, int, str]] = {
    "not TOML": ("[train\nlr = 1", 2, "is not TOML"),
    "a value of the wrong type": ('[train]\nlr = "fast"', 2, "train.lr is 'fast'"),
    "an unknown key": ("[train]\nlearning_rate = 1", 2, "there is no setting 'train.learning_rate'"),
    "a value without a section": ("lr = 1", 2, "'lr' stands outside a section"),
}


@pytest.mark.parametrize("case", TOML)
def test_a_settings_file_that_is_no_good_is_named(contrast: Contrast, case: str) -> None:
    text, code, what = TOML[case]
    Path("mine.toml").write_text(text)
    refused(contrast(*train(*LABELLED, "--config", "mine.toml")), code, what)
    os.rename("mine.toml", "contrast.toml")
    answer = contrast("config", "show")
    refused(answer, code, what)
    assert "contrast.toml" in answer.err


def test_a_variable_with_a_bad_value_is_named(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "fast")
    refused(contrast("config", "show"), 2, "train.lr is 'fast' (CONTRAST_TRAIN_LR)")


def test_an_unknown_backbone_without_network_is_told_from_a_folder(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    refused(
        contrast(*train(*LABELLED, "--backbone", "nobody/nothing")), 3, "hub cannot be reached", "the model 'starter'"
    )


def test_an_unexpected_error_has_a_traceback_only_on_request(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("boom\nand more")

    monkeypatch.setattr(runs, "list_runs", fail)
    refused(contrast("runs", "list"), 1, "ValueError: boom", "--debug")
    assert "Traceback" in contrast("--debug", "runs", "list").err


def test_an_interrupt_ends_with_130(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "list_runs", interrupt)
    refused(contrast("runs", "list"), 130, "interrupted")


def test_the_two_lines_stay_two_whatever_a_name_holds(contrast: Contrast) -> None:
    refused(contrast("runs", "show", "a\nb\x1b[31m"), 3, "there is no run")
    refused(contrast(*train("--data", "a\nb.txt")), 3, "there is no file or folder a b.txt")
