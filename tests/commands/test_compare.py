"""Methods over seeds, side by side: what counts, what is tested, and how it reads."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from scipy import stats

from contrastcli.commands.compare import compare
from contrastcli.data.relevance import Retrieval
from contrastcli.errors import UsageError
from contrastcli.evaluation import run_scores as side_by_side
from contrastcli.evaluation import significance
from contrastcli.evaluation.suites import headlines
from contrastcli.model.locate import resolve
from contrastcli.runs import directory as runs
from contrastcli.runs.directory import Run
from contrastcli.runs.methods import identity
from contrastcli.runs.results import Bootstrap, ScoreName
from contrastcli.show.format import as_json, latex_table
from contrastcli.show.runs import run_comparison
from contrastcli.training.plan import make_plan
from support.command import Contrast, refused, train
from support.recorded import end
from support.settings import config, preset
from support.tiny import Tiny

DEV = ScoreName("dev")
SIMCSE = {40: 0.71, 41: 0.73, 42: 0.72}
SIMACE = {40: 0.75, 41: 0.78, 42: 0.76}


def finished(folder: Path, name: str, score: float, status: str = "finished", **settings: object) -> Run:
    """A run with a dev score that was never trained; `settings` as train__seed=1."""
    run = runs.create(config(**settings), folder, name)
    end(run, score, status)
    return run


@pytest.fixture
def six(tmp_path: Path) -> list[Run]:
    """Three seeds of two methods, by turns."""
    return [
        finished(tmp_path, f"{name}-{seed}", scores[seed], objective__name=name, train__seed=seed)
        for seed in SIMCSE
        for name, scores in (("simcse", SIMCSE), ("simace", SIMACE))
    ]


def test_runs_on_other_rows_of_one_name_are_other_methods(contrast: Contrast) -> None:
    rows = Path("tiny/pairs.jsonl").read_text().splitlines(keepends=True)
    for name, count in (("a", 40), ("b", 30)):
        Path("rows.jsonl").write_text("".join(rows[:count]))
        words = ("--data", "rows.jsonl", "--objective", "simcse", "--dev", "split:20%")
        assert contrast(*train(*words, "--name", name)).code == 0
    groups = json.loads(contrast("compare", "a", "b", "--json").out)["groups"]
    read = [json.loads(Path(f"runs/{name}/environment.json").read_text())["data"]["read_fingerprint"] for name in "ab"]
    assert [group["settings"] for group in groups] == [{"data.train": f"rows.jsonl ({one[:8]})"} for one in read]
    for two in ("ab", "ba"):
        answer = contrast("compare", *two, "--bootstrap")
        refused(answer, 3, "a: the rows of rows.jsonl are not those", "--dev")


def test_data_that_have_changed_are_told_next_to_other_settings_and_by_any_path(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    rows, dev = (Path(f"tiny/{name}.jsonl").read_text().splitlines(keepends=True) for name in ("pairs", "dev"))
    runs_of = [("a", "~/rows.jsonl", 40, 30), ("b", str(Path("rows.jsonl").resolve()), 40, 30)]
    runs_of += [("c", "rows.jsonl", 30, 30), ("d", "rows.jsonl", 40, 20)]
    for seed, (name, path, count, pairs) in enumerate(runs_of):
        Path("rows.jsonl").write_text("".join(rows[:count]))
        Path("dev.jsonl").write_text("".join(dev[:pairs]))
        words = ("--data", path, "--objective", "simcse", "--dev", "dev.jsonl", "--seed", str(seed))
        assert contrast(*train(*words, "--name", name, "--lr", "1e-4" if name == "c" else "1e-5")).code == 0
    told = json.loads(contrast("compare", "a", "b", "c", "d", "--json").out)
    assert [[run["name"] for run in group["runs"]] for group in told["groups"]] == [["a", "b"], ["c"], ["d"]]
    train_data, dev_data = told["settings"]["data.train"], told["settings"]["dev.data"]
    assert len(set(train_data)) == 2 and train_data[0] == train_data[1] == train_data[3] != train_data[2]
    assert len(set(dev_data)) == 2 and dev_data[0] == dev_data[1] == dev_data[2] != dev_data[3]


def test_several_files_are_the_same_data_by_any_path(cwd: Path) -> None:
    for name in ("a.csv", "b.csv"):
        Path(name).touch()
    assert identity({"data.train": "a.csv=2,b.csv"}) == identity({"data.train": f"./a.csv=2,{cwd}/b.csv"})


def test_only_finished_runs_count_and_a_seed_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [
        finished(tmp_path, "one", 0.70, train__seed=1),
        finished(tmp_path, "again", 0.90, train__seed=1),
        finished(tmp_path, "two", 0.72, train__seed=2),
        finished(tmp_path, "stopped", 0.10, "stopped", train__seed=3),
    ]
    (method,) = side_by_side.compare(chosen).groups
    assert len(method.runs) == 4 and method.n == 2
    assert method.scores[DEV].values == pytest.approx((70, 72))
    assert "2 of 3" in run_comparison(compare(chosen, bootstrap=False, dev=None))
    assert "1 of one, again, two, stopped repeat a seed of the same settings" in capsys.readouterr().err
    with pytest.raises(UsageError, match="differ in their seed alone"):
        compare(chosen, bootstrap=False, dev=None, require="better")


def test_the_number_of_a_task_is_the_one_that_papers_print() -> None:
    suites = {
        "sts": {"STS12": {"all": {"spearman": 71.5}, "mean": {"spearman": 1}}, "average": None, "partial": True},
        "transfer": {"MR": {"accuracy": 80.25}, "average": 85.0, "average8": 84, "protocol": "…", "missing": {}},
        "fewshot": {"CR": {"mean": 70.5, "sd": 2.0}},
        "mteb": {"BIOSSES": {"score": 60.5, "metric": "cosine_spearman"}},
        "geometry": {"STS-B": {"alignment": 0.2}},
    }
    assert headlines({"model": "m", "suites": suites}) == {
        "sts STS12": 71.5,
        "transfer MR": 80.25,
        "transfer average": 85.0,
        "transfer average8": 84.0,
        "fewshot CR": 70.5,
        "mteb BIOSSES": 60.5,
    }
    assert headlines({}) == {}


def test_two_methods_over_seeds_are_tested(six: list[Run]) -> None:
    compared = compare(six, bootstrap=False, dev=None)
    text = run_comparison(compared)
    rows = {line.split("  ")[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["objective.name"] == ["simcse", "simace"]
    assert "72.00 ± 1.00" in text and "76.33 ± 1.53" in text
    (welch,) = compared.welch[DEV]
    assert welch.difference == pytest.approx(76 + 1 / 3 - 72) and welch.methods == ("simcse-40", "simace-40")
    test_line = text.splitlines()[-1].split()
    assert test_line[:3] == ["best", "dev", "+4.33"] and float(test_line[-1]) == pytest.approx(welch.p, abs=6e-4)
    sides = json.loads(as_json(compared))
    assert [test["p"] for test in sides["welch"]["dev"]] == [welch.p] == [welch.holm]
    assert [side["n"] for side in sides["groups"]] == [3, 3] and len(sides["results"]) == 6


def test_one_seed_of_a_method_is_not_tested(six: list[Run]) -> None:
    assert compare(six[:3], bootstrap=False, dev=None).welch == {}  # two seeds against one
    assert compare(six[:2], bootstrap=False, dev=None).welch == {}
    two_of_one = compare([six[0], six[2]], bootstrap=False, dev=None)
    assert two_of_one.welch == {} and len(two_of_one.groups) == 1


def test_methods_that_do_not_vary_have_no_p_and_the_json_stays_json(tmp_path: Path) -> None:
    chosen = [
        finished(tmp_path, f"{lr}-{seed}", score, train__lr=lr, train__seed=seed)
        for lr, score in ((1e-5, 0.7), (3e-5, 0.8))
        for seed in (1, 2)
    ]
    compared = compare(chosen, bootstrap=False, dev=None)
    assert run_comparison(compared).splitlines()[-1].split()[-1] == "–"
    assert json.loads(as_json(compared))["welch"]["dev"][0]["p"] is None


def test_the_minutes_of_a_run_stand_above_those_that_its_paper_prints(tmp_path: Path) -> None:
    chosen = [runs.create(preset(f"{name}-bert-base"), tmp_path, name) for name in ("simace", "arccon")]
    for run in chosen:
        end(run, 0.7, "finished")
    *_, ours, printed = run_comparison(compare(chosen, bootstrap=False, dev=None)).splitlines()
    assert ours.split()[:2] == ["training", "minutes"] and printed.split() == ["published", "minutes", "68", "76"]


def test_runs_with_different_dev_sets_need_pairs_by_name(tmp_path: Path) -> None:
    chosen = [finished(tmp_path, f"on-{name}", 0.7, dev__data=name) for name in ("starter", "stsb")]
    with pytest.raises(UsageError, match="the dev sets of the runs differ"):
        compare(chosen, bootstrap=True, dev=None)


def test_what_one_run_held_out_is_compared_where_the_other_did_not_train_on_it(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for pairs, and for the triplets that were mined from some of them."""
    pairs = tiny.data["pairs"].read_text().splitlines()
    mined = tmp_path / "mined.jsonl"
    mined.write_text("\n".join(line.replace("}", ', "negative": "ba"}') for line in pairs[:100]))
    data, common = (str(tiny.data["pairs"]), str(mined)), {"objective__name": "simcse", "dev__data": "split:20%"}
    chosen = [
        finished(tmp_path, f"run-{seed}", 0.7, train__seed=seed, data__train=name, **common)
        for seed, name in enumerate(data)
    ]
    tested = list[Retrieval]()

    def compare_models(models: object, data: Retrieval, on_progress: object) -> tuple[Bootstrap, ...]:
        tested.append(data)
        return (Bootstrap(("", ""), data.source, data.metric, len(data), (0, 0), 0, 0, 0, 1, 1),)

    monkeypatch.setattr(significance, "compare_models", compare_models)
    compared = compare(chosen, bootstrap=True, dev=None)
    first, second = (make_plan(run.config()) for run in chosen)
    assert isinstance(first.dev, Retrieval)
    expected = [text for text in first.dev.queries if text not in [*second.examples.views["anchor"]]]
    assert [*tested[0].queries] == expected and 10 < len(expected) < len(first.dev)
    relevant = {(tested[0].queries[q], tested[0].documents[d]) for q, d, grade in tested[0].judged if grade}
    assert relevant == {(row["anchor"], row["positive"]) for row in map(json.loads, pairs) if row["anchor"] in expected}
    assert f"over {len(expected)} queries of 20% of {data[0]}" in run_comparison(compared)
    seen = f"{len(first.dev) - len(expected)} of the {len(first.dev)} dev rows of run-0"
    note = f"note: other runs trained on {seen}: {len(expected)} are measured\n"
    assert note in capsys.readouterr().err


def test_each_two_of_three_methods_are_tested_with_holms_correction(tmp_path: Path, six: list[Run]) -> None:
    third = [
        finished(tmp_path, f"dcl-{seed}", score, objective__name="dcl", train__seed=seed)
        for seed, score in ((40, 0.74), (41, 0.7), (42, 0.78))
    ]
    compared = compare([*six, *third], bootstrap=False, dev=None)
    tests = {test.methods: test for test in compared.welch[DEV]}
    assert list(tests) == [("simcse-40", "simace-40"), ("simcse-40", "dcl-40"), ("simace-40", "dcl-40")]
    scores = {"simcse-40": (71, 73, 72), "simace-40": (75, 78, 76), "dcl-40": (74, 70, 78)}
    ps = {pair: stats.ttest_ind(scores[pair[0]], scores[pair[1]], equal_var=False).pvalue for pair in tests}
    assert [test.p for test in tests.values()] == pytest.approx(list(ps.values()))
    assert [test.holm for test in tests.values()] == significance.holm(list(ps.values()))
    header, *rows = run_comparison(compared).split("\n\n")[-1].splitlines()
    assert header.endswith("Holm's p") and [row.split()[2:4] for row in rows] == [list(pair) for pair in tests]


def test_runs_are_compared_with_any_model_by_name(contrast: Contrast, other: Run) -> None:
    contrast("eval", "tiny/backbone", "simple", "--data", "tiny/dev.jsonl")
    measured = json.loads(contrast("eval", "tiny/backbone", "--data", "tiny/dev.jsonl", "--json").out)
    base = measured["suites"]["own"]["tiny/dev.jsonl"]["spearman"]
    words = ("compare", "tiny/backbone", "simple", "other", "--bootstrap", "--dev", "tiny/dev.jsonl")
    answer = contrast(*words)
    assert "note: of runs that differ in their seed, seed 42 is tested: tiny/backbone, simple" in answer.err
    header, *rows = answer.out.splitlines()
    assert header.split() == ["tiny/backbone", "simple"], "both runs are one method"
    assert next(row for row in rows if row.startswith("own tiny/dev.jsonl")).split()[-2] == f"{base:.2f}"
    assert "tiny/backbone" in rows[-1] and "over 30 pairs of tiny/dev.jsonl" in rows[-1]
    both = json.loads(contrast(*words, "--json").out)
    assert [result["is_run"] for result in both["results"]] == [False, True, True]
    (tested,) = both["bootstrap"]
    assert tested["runs"] == ["tiny/backbone", "simple"]
    assert tested["scores"][0] == pytest.approx(base, abs=1e-6) and f" p {tested['p']:.3f}" in rows[-1]


def test_methods_of_several_seeds_are_tested_by_one_that_both_have_and_named_without_it(
    contrast: Contrast, run: Run, tiny: Tiny
) -> None:
    for name, lr, seed in (("a", 1e-3, 2), ("a", 1e-3, 1), ("b", 2e-3, 1), ("b", 2e-3, 3), ("a-large", 3e-3, 1)):
        made = Run(Path(shutil.copytree(run.path, f"runs/{name}-seed={seed}")))
        made.config_path.write_text(tiny.config(train__max_steps=4, train__lr=lr, train__seed=seed).to_toml())
    # What failed and has no checkpoint is not the one that is tested.
    lost = tiny.config(train__max_steps=4, train__lr=1e-3, train__seed=1)
    end(runs.create(lost, Path("runs"), "lost"), 0.7, "failed")
    names = ("a-seed=2", "lost", "b-seed=1", "a-seed=1", "b-seed=3")
    compared = json.loads(contrast("compare", *names, "--dev", "tiny/dev.jsonl", "--json").out)
    assert compared["bootstrap"][0]["runs"] == ["a-seed=1", "b-seed=1"]
    assert next(iter(compared["welch"].values()))[0]["methods"] == ["a", "b"]
    for words in (names, ("a", "b")):
        assert contrast("compare", *words).out.splitlines()[0].split() == ["a", "b"]


def test_the_dev_set_of_a_run_is_that_of_a_comparison_with_its_base(contrast: Contrast, run: Run) -> None:
    out = contrast("compare", "tiny/backbone", "simple", "--bootstrap").out
    assert f"over 30 pairs of {run.config().dev.data}" in out
    assert out.splitlines()[1].split()[:2] == ["state", "–"]
    two = ("compare", "tiny/backbone", "starter", "--bootstrap")
    refused(contrast(*two), 3, "there are no dev pairs to compare on", "--dev FILE or stsb")
    unscored = contrast(*two, "--dev", "tiny/sentences.jsonl")
    refused(unscored, 3, "nothing says which of them are similar", "give pairs")
    assert "--dev none" not in unscored.err


def test_several_models_get_a_bootstrap_each_two(contrast: Contrast, run: Run) -> None:
    Path("pairs.csv").write_text("frage,antwort\nba,da\nfa,ga\nka,la\n,ma\n")
    roles = ("--dev", "pairs.csv", "--columns", "anchor=frage,positive=antwort", "--blank", "drop")
    words = ("compare", "tiny/backbone", "simple", "starter", "--bootstrap", *roles)
    answer = contrast(*words, "--json")
    assert "note: pairs.csv: nDCG@10 of 3 anchors among 3 texts; 1 of 4 rows without a text" in answer.err
    tests = json.loads(answer.out)["bootstrap"]
    assert [test["runs"] for test in tests] == [
        ["tiny/backbone", "simple"],
        ["tiny/backbone", "starter"],
        ["simple", "starter"],
    ]
    assert {(test["pairs"], test["metric"]) for test in tests} == {(3, "ndcg@10")}
    assert all(test["p"] <= test["holm"] <= 1 for test in tests)


def test_a_metric_that_one_model_was_asked_for_is_shown_of_all_that_have_it(contrast: Contrast, run: Run) -> None:
    assert contrast("eval", "simple", "tiny/backbone", "--data", "tiny/pairs.jsonl").code == 0
    assert contrast("eval", "tiny/backbone", "--data", "tiny/pairs.jsonl", "--metric", "recall@1").code == 0
    rows = contrast("compare", "tiny/backbone", "simple").out.splitlines()
    shown = {row.split()[2]: row.split()[3:] for row in rows if row.startswith("own tiny/pairs.jsonl")}
    stored = [
        json.loads(Path(file).read_text())
        for file in (resolve("tiny/backbone").scores_path(), "runs/simple/scores.json")
    ]
    for title, metric in {"nDCG@10": "ndcg@10", "recall@1": "recall@1"}.items():
        assert shown[title] == [f"{one['suites']['own']['tiny/pairs.jsonl'][metric]:.2f}" for one in stored]


def test_files_of_one_name_and_other_content_are_told_apart(contrast: Contrast, run: Run) -> None:
    texts = Path("tiny/pairs.jsonl").read_text()
    for model, text in (("simple", texts), ("tiny/backbone", texts[: len(texts) // 2].rpartition("\n")[0])):
        Path("mine.jsonl").write_text(text)
        assert contrast("eval", model, "--data", "mine.jsonl").code == 0
    rows = [row.split() for row in contrast("compare", "tiny/backbone", "simple").out.splitlines()]
    first, second = (row for row in rows if row[:2] == ["own", "mine.jsonl"])
    assert first[2] != second[2] and [row[4:].index("–") for row in (first, second)] == [1, 0]


def test_parts_of_a_published_set_that_differ_in_their_size_are_told_apart() -> None:
    a, b = ({"suites": {"transfer": {"SST2": {"accuracy": 60.0, "rows": rows}}}} for rows in (180, 1900))
    assert [[*map(str, headlines(one, [a, b]))] for one in (a, b)] == [
        ["transfer SST2 (180 rows)"],
        ["transfer SST2 (1,900 rows)"],
    ]
    assert [*map(str, headlines(a, [a, a]))] == ["transfer SST2"]


def test_what_was_measured_now_has_a_row_and_what_nothing_is_known_of_has_none(contrast: Contrast, run: Run) -> None:
    answer = contrast("compare", "tiny/backbone", "starter", "--dev", "tiny/dev.jsonl", "--plot")
    lines = answer.out.splitlines()
    assert "note: nothing is drawn" in answer.err, "neither is a run"
    first, second = re.search(r"Spearman (\S+) → (\S+)", answer.out).groups()  # type: ignore[union-attr]
    assert [line.split() for line in lines[:2]] == [
        ["tiny/backbone", "starter"],
        ["Spearman,", "tiny/dev.jsonl", first, second],
    ]
    assert lines[2] == ""
    nothing = ("nothing of these models is known", "--dev FILE")
    refused(contrast("compare", "tiny/backbone", "starter"), 2, *nothing)
    scores = resolve("tiny/backbone").scores_path()
    scores.parent.mkdir(parents=True)
    scores.write_text('{"suites": {"geometry": {"STS-B": {"alignment": 0.2}}}}')
    refused(contrast("compare", "tiny/backbone", "starter"), 2, *nothing)


def test_runs_of_one_name_in_two_folders_are_told_apart(contrast: Contrast, run: Run) -> None:
    words = train("--data", "tiny/pairs.jsonl", "--objective", "simcse", "--lr", "0.01", "--name", "simple")
    assert contrast("--runs-dir", "there", *words).code == 0
    answer = contrast("compare", "simple", "there/simple", "--dev", "tiny/dev.jsonl")
    header, *rows = (line.split() for line in answer.out.splitlines())
    tested = re.search(r"there/simple is .+ simple: Spearman (\S+) → (\S+)", answer.out)
    assert tested and tested[1] != tested[2] and header == ["simple", "there/simple"]
    assert ["Spearman,", "tiny/dev.jsonl", *tested.groups()] in rows


def test_tables_are_written_for_documents_and_sheets(contrast: Contrast, run: Run) -> None:
    words = ("compare", "tiny/backbone", "simple", "--bootstrap", "--format")
    markdown = contrast(*words, "markdown").out
    assert markdown.startswith("|  | tiny/backbone | simple |\n| --- | --- | --- |\n") and "| 30 |" in markdown
    latex = contrast(*words, "latex").out
    assert latex.startswith("\\begin{tabular}{lrl}\n\\toprule\n & tiny/backbone & simple \\\\\n")
    assert "95 \\%" in latex and latex.count("\\end{tabular}") == 2
    sheets = [list(csv.reader(block.splitlines())) for block in contrast(*words, "csv").out.strip().split("\n\n")]
    assert [len(sheet[0]) for sheet in sheets] == [3, 7]
    assert all(len(row) == len(sheet[0]) for sheet in sheets for row in sheet)
    assert all(cell == cell.strip() for sheet in sheets for row in sheet for cell in row)
    assert sheets[1][1][0] == "tiny/backbone against simple"


@pytest.fixture
def other(run: Run) -> Run:
    """A second run, the same as the first."""
    return Run(Path(shutil.copytree(run.path, run.path.with_name("other"))))


def test_names_in_latex_are_printed_as_they_are_and_numbers_with_a_minus() -> None:
    assert r"sw-1 & $-$0.5 \dots{} +1e-05 \\" in latex_table(["", ""], [["sw-1", "-0.5 … +1e-05"]])
    assert r"\textbackslash{}a\textasciicircum{}2\textasciitilde{}\_b" in latex_table([r"\a^2~_b"], [])


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--dev", "tiny/dev.jsonl"), 0), (("--require", "better"), 6), (("--require", "not-worse"), 0)],
)
def test_two_are_tested_for_data_or_a_requirement_which_decides_the_exit_code(
    contrast: Contrast, other: Run, words: tuple[str, ...], code: int
) -> None:
    answer = contrast("compare", "simple", "other", *words)
    assert answer.code == code and "other is not different from simple: Spearman " in answer.out
    assert ("error: other is not different from simple, and better is required" in answer.err) == (code == 6)


def test_a_folder_for_pictures_that_cannot_be_is_refused_before_all_else(contrast: Contrast, other: Run) -> None:
    pytest.importorskip("matplotlib")
    Path("file").touch()
    refused(contrast("compare", "simple", "other", "--plot", "--out", "file"), 1, "cannot write file: File exists")
