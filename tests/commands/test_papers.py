"""`contrast papers`: a table made end to end, also after a kill, and printed in every format; pictures; errors."""

import csv
import io
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest

from contrastcli.runs.directory import Run
from contrastcli.settings import papers
from support.command import Contrast, failed, refused
from support.sts_files import write_stsb

TINY = {
    "model.backbone": "tiny/backbone",
    "data.train": "tiny/sentences.jsonl",
    "dev.data": "tiny/dev.jsonl",
    "train.batch_size": "8",
    "train.device": "cpu",
    "train.precision": "fp32",
}
SMALL = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
ROWS = ("--rows", "SimCSE,SimACE", "--backbones", "BERT-base", "--scale", "0.00004")  # 40 sentences, 5 steps
TABLE = ("simace", "table-2")


def continued(plan: str) -> list[str]:
    """The words of the command that a dry run says makes its table."""
    return shlex.split(plan.splitlines()[-1].removeprefix("next: contrast "))


def write_sts() -> tuple[str, str]:
    """One set of STS, of six pairs; the words that name it."""
    texts = ["ba den", "fom gir", "ka len", "mum nir", "pa ren", "sir tum"]
    rows = [(text, texts[n - 1], str(n * 7 % 5)) for n, text in enumerate(texts)]
    write_stsb(Path("senteval"), rows)
    return "--data-dir", "senteval"


def test_a_table_is_trained_measured_and_printed_in_every_format(contrast: Contrast, launched: list[str]) -> None:
    words = (*ROWS, *SMALL, "--seeds", "2", *write_sts())
    plan = contrast("papers", "run", *TABLE, *words, "--dry-run").out
    assert "0 of 2" in plan and not Path("runs").exists()
    assert contrast(*continued(plan), "--dry-run").out == plan
    answer = contrast("papers", "run", *TABLE, *words)
    assert len(launched) == 4, answer.err
    assert "cell 4 of 4: SimACE on BERT-base, seed 43: finished" in answer.err
    failed(answer, 3, "not measured: STS12, STS13, STS14, STS15, STS16, SICK-R: ", "")
    assert "next: contrast papers table simace table-2" in answer.err

    text = contrast("papers", "table", *TABLE).out  # as it was last run
    assert "difference" not in text and "75.97 ± 0.69" in text and "77.46 ± 0.47" in text and "ours, 2 seeds" in text
    assert "Scale 4e-05: runs of at most 0.004 % of the paper's training rows." in text
    assert "model.backbone = tiny/backbone" in text and "* of fewer sets or rows" in text
    told_json = json.loads(contrast("papers", "table", *TABLE, "--format", "json").out)
    records = list(csv.DictReader(io.StringIO(contrast("papers", "table", *TABLE, "--format", "csv").out)))
    assert [r["row"] for r in records] == ["SimCSE", "SimACE"] == [n["row"] for n in told_json["numbers"]]
    for name, record in zip((launched[:2], launched[2:]), records, strict=True):
        scores = [Run(Path("runs") / n).scores()["suites"]["sts"]["STS-B"]["all"]["spearman"] for n in name]
        assert float(record["ours"]) == pytest.approx(sum(scores) / 2) and record["seeds"] == "2"
        assert (record["backbone"], record["ours_backbone"]) == ("BERT-base", "tiny/backbone")
        assert f"{sum(scores) / 2:.2f} ± " in text
    one = contrast("papers", "table", *TABLE, "--rows", "SimACE", "--format", "markdown").out
    assert "| tiny/backbone | SimACE | ours, 2 seeds |" in one and "SimCSE" not in one
    latex = contrast("papers", "table", *TABLE, "--format", "latex").out
    assert r"\toprule" in latex and r"printed & 75.97 $\pm$ 0.69 \\" in latex


def test_the_command_to_continue_names_the_runs_directory_and_the_folder_of_the_user(contrast: Contrast) -> None:
    folder = Path("~/senteval").expanduser()  # by no shell
    folder.mkdir(parents=True)
    words = ("--runs-dir", "my runs", "papers", "run", *TABLE, *ROWS, *SMALL, "--data-dir=~/senteval", "--dry-run")
    plan = contrast(*words).out
    repeated = continued(plan)
    assert repeated[:2] == ["--runs-dir", "my runs"] and contrast(*repeated, "--dry-run").out == plan
    assert f"--data-dir {folder}" in plan
    refused(contrast("--runs-dir", "my runs", "watch"), 3, "no run in my runs", "contrast --runs-dir 'my runs' train")
    refused(contrast("watch"), 3, "no run in runs", "make one: contrast train")


def test_a_setting_of_one_row_leaves_the_others_as_they_are(contrast: Contrast) -> None:
    words = ("papers", "run", "simace", "table-8", *ROWS, *SMALL, "--dry-run")
    answer = contrast(*words, "--set", "objective.margin=5")
    refused(answer, 2, "SimCSE: objective.margin is 5.0", "ROW:objective.margin=5")
    plan = contrast(*words, "--set", "SimACE:objective.margin=5").out
    assert "SimACE:objective.margin = 5" in plan
    assert contrast(*continued(plan), "--dry-run").out == plan
    settings = dict(word.split("=", 1) for option, word in itertools.pairwise(continued(plan)) if option == "--set")
    rows = [papers.System("BERT-base", row) for row in ("SimCSE", "SimACE")]
    made = [papers.config_of(row, papers.Request(scale=0.00004, settings=settings)) for row in rows]
    assert [config.flat()["objective.margin"] for config in made] == [0, 5]
    refused(contrast(*words, "--set", "SimAGE:objective.margin=5"), 2, "has no row 'SimAGE'", "did you mean 'SimACE'?")


def test_runs_that_a_setting_names_are_kept_by_their_paths(contrast: Contrast, run: Run) -> None:
    names = ("--set", "model.backbone=last", "--set", "SimACE:objective.guide=last:cls=2,simple")
    plan = contrast("papers", "run", *TABLE, *ROWS, *names, "--dry-run").out
    assert "model.backbone = runs/simple, SimACE:objective.guide = runs/simple:cls=2.0,runs/simple=1.0." in plan
    assert "needs weights from the hub" not in plan


def test_a_paper_without_an_item_lists_what_it_has(contrast: Contrast) -> None:
    assert contrast("papers", "show").out == contrast("papers").out
    shown = contrast("papers", "show", "simace").out
    assert "table-1" in shown and "pairsupcon: " in contrast("papers").out and "pairsupcon: " not in shown
    assert contrast("papers", "show", "pairsupcon").out.endswith("next: contrast papers show pairsupcon table-1\n")
    there = contrast("--runs-dir", "there", "papers", "list").out
    assert there.endswith("next: contrast --runs-dir there papers show simace table-1\n")


def test_a_figure_is_drawn_from_the_runs_that_a_table_had_trained(contrast: Contrast, launched: list[str]) -> None:
    assert contrast("papers", "run", "simace", "table-8", *ROWS, *SMALL).code == 0 and len(launched) == 2
    times = contrast("papers", "table", "simace", "table-8").out
    assert re.search(r"SimACE  ours +8\.00 +1\.00 +0\.\d\d\n", times) and "Ours trained on cpu, " in times
    assert contrast("papers", "run", "simace", "figure-4", *ROWS[2:], *SMALL).code == 0 and len(launched) == 2
    assert contrast("papers", "figure", "simace", "figure-4", "--out", "pictures").code == 0
    assert sorted(path.name for path in Path("pictures").iterdir()) == [
        f"simace-figure-4-angles-{which}.{kind}" for which in ("negative", "positive") for kind in ("csv", "png", "svg")
    ]
    points = Path("pictures/simace-figure-4-angles-positive.csv").read_text().splitlines()
    assert points[0] == "series,step,angle in degrees"
    assert {point.split(",")[0] for point in points[1:]} == {"SimCSE", "SimACE"}
    listed = json.loads(contrast("papers", "list", "--json").out)
    made = {(one["paper"], one["item"]): (one["done"], one["total"]) for one in listed}
    assert made["simace", "table-8"] == made["simace", "figure-4"] == (2, 2)
    assert made["simace", "table-1"] == (0, 0) and len(listed) == 43
    assert next(one["runs"] for one in listed if one["item"] == "figure-4") == launched


@pytest.mark.usefixtures("hub_cache")
def test_what_cannot_be_downloaded_is_given_by_a_setting(contrast: Contrast) -> None:
    words = ["papers", "run", *TABLE, "--rows", "SimCSE", "--scale", "0.00004", "--set", "train.batch_size=8"]
    for setting in ("data.train=tiny/sentences.jsonl", "dev.data=none", "model.backbone=starter"):
        missing = contrast(*words)
        refused(missing, 3, "the hub cannot be reached", f"--set {setting.replace('tiny/sentences.jsonl', 'FILE')}")
        assert not any(word in missing.err for word in words if "=" in word), "nothing that was given already"
        words += ["--set", setting]
    assert contrast(*words, "--dry-run").code == 0


def test_a_curve_needs_no_training(contrast: Contrast) -> None:
    drawn = contrast("papers", "figure", "simace", "figure-1", "--out", "pictures")
    assert drawn.code == 0
    rows = csv.reader(Path("pictures/simace-figure-1-slope.csv").read_text().splitlines())
    numbers = dict(row[1:] for row in rows if row[0] == "angle")
    assert float(numbers["90.0"]) == pytest.approx(1) and float(numbers["30.0"]) == pytest.approx(2)


def test_the_printed_numbers_are_shown_with_what_they_take(contrast: Contrast) -> None:
    shown = contrast("papers", "show", "pairsupcon", "table-3", "--backbones", "BERT-base").out
    assert re.search(r"PairSupCon +printed +74\.3 +84\.4", shown)
    assert "preset pairsupcon-base" in shown and "GPU hours (at" in shown
    table = contrast("papers", "table", "supcon", "table-3", "--set", "model.backbone=starter").out
    assert len(re.findall("printed  ", table)) == 12
    assert "SCL 3all3n, λ = 1.0 on BERT-medium is not made: 3all3n is explained nowhere." in table
    assert "4 of the 12 rows, as asked for." in contrast("papers", "table", *TABLE, "--rows", "SimCSE").out
