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

from contrastcli import boundary
from contrastcli.errors import RunError
from contrastcli.files import writing_to
from contrastcli.runs.directory import Run
from support.command import LABELLED, SENTENCES, Answer, Contrast, failed, refused, train
from support.disks import full_disk

GRID = ("sweep", *train(*LABELLED)[1:], "--grid", "tau=0.05,0.07", "--name", "mine")
FILE = 'base = "starter"\nseeds = 2\n'


def commands_in(answer: Answer) -> list[list[str]]:
    """The words of each command of the hint."""
    hint = answer.err.splitlines()[-1]
    found = re.findall(r"contrast ((?:--\S+ \S+ )?[a-z]+.*?)(?=; |, or |, remove|, such| and | lists them|$)", hint)
    return [shlex.split(command) for command in found]


@pytest.mark.parametrize(
    ("words", "hinted"),
    [
        (("train", "--preset", "simace-grid"), ["sweep", "--preset", "simace-grid"]),
        (("train", "--config", "grid.toml"), ["sweep", "--config", "grid.toml"]),
        (("train", "--config", "grid.toml", "--lr", "1e-4"), ["sweep", "--config", "grid.toml", "--lr", "1e-4"]),
        (("sweep", "--resume", "nothing"), ["sweep", "--preset", "starter", "--grid", "tau=0.05,0.06"]),
        (("query", "one", "--model", "starter"), ["query", "--model", "starter", "one", "ANOTHER TEXT"]),
        (("watch",), ["train", "--preset", "starter", "--no-ui"]),
        (("query", "a", "b"), ["train", "--preset", "starter", "--no-ui"]),
        (("papers", "table", "simace", "figure-1"), ["papers", "show", "simace", "figure-1"]),
        (("papers", "show", "simace", "table-99"), []),
        (("encode", "x.txt"), ["encode", "--help"]),
        (("presets", "show", "foo"), ["presets"]),
        (("config", "show", "--set", "foo=1"), ["help", "settings"]),
        (("help", "xyzzy"), ["help"]),
    ],
)
def test_the_command_of_a_hint_can_be_typed(contrast: Contrast, words: tuple[str, ...], hinted: list[str]) -> None:
    Path("grid.toml").write_text(FILE)
    answer = contrast(*words)
    assert answer.code in (2, 3)
    first = next(iter(commands_in(answer)), [])
    assert first == hinted
    if first:
        dry = ["--dry-run"] if first[0] in ("train", "sweep") else []
        typed = contrast(*first, *dry)
        # What this machine does not have is another problem: data and models of the hub, a run.
        assert typed.code == 0 or (typed.code == 3 and first[0] in ("query", "sweep")), typed.err


SQUAD = {"data": [{"title": "t", "paragraphs": [{"context": "c", "qas": [{"question": "q"}]}]}] * 3}
TITLES = "anchor=title,positive=body"
FILES = {
    "quoted.toml": '[train]\nlr = "1e-5"\n',
    "seeds.toml": "[grid]\nseed = [1, 2]\n",
    "several.toml": "[objective]\ntau = [0.05, 0.06]\n",
    "words.tsv": "premise\thypothesis\tlabel\nba\tda\tentails\nfa\tga\tcontradicts\n",
    "same.tsv": "premise\thypothesis\tlabel\nba\tda\te\nfa\tga\te\n",
    "more/rows.tsv": "premise\thypothesis\tlabel\n" + "".join(f"ba {n}\tda {n}\t{'enc'[n % 3]}\n" for n in range(200)),
    "more/commas.jsonl": '{"anchor": "a", "positive": "b"},\n' * 3,
    "more/numbers.jsonl": '{"anchor": "a", "positive": 7}\n' * 3,
    "python.jsonl": "{'anchor': 'a', 'positive': 'b'}\n" * 3,
    "nested.jsonl": '{"query": {"id": "1", "text": "a b"}, "positive": "c"}\n' * 3,
    "chat.jsonl": '{"turns": [{"role": "user", "content": "a b c"}]}\n' * 3,
    "alike.jsonl": '{"set": ["a b", "c d", "e f"]}\n' * 3,
    "example.jsonl": '{"guid": "1", "texts": ["a b", "c d"], "label": 0.5}\n' * 3,
    "squad.json": json.dumps(SQUAD),
    "comma.csv": 'sentence1,sentence2,score\nba,da,"0,5"\nfa,ga,"1"\n',
    "my faq.csv": "anchor,positive\na,b\n",
    "titles.csv": "title,body\na,b\nc,d\n",
    "twice.csv": "text,text\nba,da\n",
    "vec.npy": "",
    **{f"{letter}.txt": "" for letter in "abcdefg"},
}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("train", "--model_name_or_path", "m", "--train_file", "t"), "did you mean --backbone m and --data t?"),
        (("train", "--do_train", "--num-workers", "4", "--no-ui"), "leave it out: contrast train --no-ui"),
        (("train", "--do_mlm"), "did you mean --mlm-weight VALUE, such as 0.1?"),
        (("train", "--warmup_steps", "0.1"), "did you mean --warmup VALUE, a share of the steps?"),
        (("train", "--push_to_hub", "--learning_rate", "1"), "did you mean --lr 1? --push_to_hub: leave it"),
        (("eval", "e", "--mode", "test", "--task_set=sts"), "did you mean --suite sts? --mode: leave it out"),
        (("encode", "t.txt", "-o", "v.npy", "--batch_size", "32"), "leave it out: contrast encode t.txt -o v.npy"),
        (("export", "e", "--output_dir", "x y"), "hint: contrast export e 'x y'"),
        (
            ("mine", "--data", "F", "-o", "x.jsonl", "--range_min", "3"),
            "--ranks VALUE, such as 10-1000? contrast mine F",
        ),
        (("predict",), "did you mean contrast encode or contrast query?"),
        (("help", "losses"), "did you mean 'objectives'?"),
        (("query", "how", "do", "I", "reset", "--corpus", "t.txt"), "quotes: contrast query 'how do I reset' --corpus"),
        (("query", "a", "b", "--model", "several"), "did you mean several/checkpoint-500?"),
        (("eval", "simpel"), "did you mean the run 'simple'?"),
        (train(*LABELLED, "--backbone", "simpel"), "did you mean the run 'simple'?"),
        (("eval", "vec.npy", "--data", "tiny/dev.jsonl"), "hint: name the model's folder, with its config.json"),
        (("data", "faq.csv", "t.txt"), "one at a time: contrast data t.txt"),
        (("presets", "show", "bert"), "contrast presets lists them"),
        (("train", "starter"), "did you mean --preset starter?"),
        (("train", "simcse"), "did you mean --objective simcse?"),
        (("train", "MultipleNegativesRankingLoss"), "did you mean --objective simcse?"),
        (("train", "tau=0.1"), "did you mean --tau 0.1?"),
        (("train", "learning_rate=1e-4"), "did you mean --lr 1e-4?"),
        (("train", "dev.every=5"), "did you mean --set dev.every=5?"),
        ((*train("--data", "a.csv"), "b.csv", "c.csv"), "did you mean --data a.csv,b.csv,c.csv?"),
        (("sweep", "--grid", "tau=0.05,0.06", "margin=0,10"), "did you mean --grid margin=0,10?"),
        (("sweep", "--grid", "tau", "0.05", "0.06"), "did you mean --grid tau=0.05,0.06?"),
        (("train", "simple"), "did you mean --resume simple?"),
        (("config", "show", "simple"), "did you mean --config runs/simple/config.toml?"),
        (("bench", "starter"), "did you mean --model starter?"),
        (("train", "--resume"), "such as --resume last: see contrast train --help"),
        (("runs", "list", "--host"), "see contrast runs list --help"),
        (("encode", "x.txt", "-o", "x.npy", "--model"), "such as --model last: see contrast encode --help"),
        (("train", "--host", "me@gpu"), "ssh HOST contrast …, and see it from here: contrast watch --host HOST"),
        (("watch", "--runs-dir", "x"), "put it before the command: contrast --runs-dir x watch"),
        (("sweep", "--debug"), "put it before the command: contrast --debug sweep"),
        (("query", "a b", "--freeze", "3", "--freeze=2", "c"), "without it: contrast query 'a b' c"),
        (("runs", "--json"), "did you mean contrast runs list --json?"),
        (("--json", "runs"), "did you mean contrast runs list --json?"),
        (("--json", "runs", "show", "last"), "did you mean contrast runs show last --json?"),
        (("runs", "log", "simple", "--to", "comet"), "such as --to tensorboard: see"),
        (("runs", "log", "simple"), "such as --to tensorboard: see"),
        (("merge", "tiny/backbone", "simple", "-o", "m", "--alpha", "50%"), "such as --alpha 0.5: see"),
        (("mine", "comma.csv", "-o", "x.jsonl", "--ranks", "10:50"), "the farthest rank as 10-50;"),
        (
            ("data", "titles.csv", "--columns", "anchor=title,positive=body", "--drop", "dupes"),
            "did you mean 'repeated'?",
        ),
        (("eval", "simple", "--task", "STSBenchmark"), "did you mean 'STS-B'?"),
        (("sweep", "--config", "seeds.toml"), "out of the grid: --seeds 2 --seed 1"),
        (("train", "--config", "several.toml"), "for several: contrast sweep --grid objective.tau=0.05,0.06"),
        (train(*LABELLED, "--lr", "3e-5x"), "use --lr 3e-5, or another: "),
        (train("--data", "words.tsv"), "explain the labels: --labels contradicts=contradiction,entails=entailment"),
        (train("--data", "twice.csv"), "such as: sed -i 1s/text/text_2/2 twice.csv"),
        (("train", "--dev.every", "50", "--dev-metric", "map"), "--set dev.every=50 and --set dev.metric=map?"),
        (
            ("train", "--resume", "simple", "--data", "more/rows.tsv", "--no-ui"),
            "or start a new run: contrast train --no-ui",
        ),
        (("query", "a", "-nk", "5"), "see contrast query --help, such as: "),
        (("merge", "--alpha", "0.5", "tiny/backbone"), "see contrast merge --help, such as: "),
        (("completion", "powershell"), "one of bash, fish, zsh, as in contrast completion bash"),
        (("encode", "a.txt", "b.txt", "-o", "x.npy"), "did you mean cat a.txt b.txt | contrast encode - -o x.npy?"),
        (("papers", "simace", "table-1"), "did you mean contrast papers show simace table-1?"),
        (("train", "--lambd", "0.3", "--no-ui"), "did you mean --lambda 0.3?"),
        (("train", "--preset", "starter", "--set", "lr", "3e-5"), "did you mean --set train.lr=3e-5?"),
        (("sweep", "--preset", "starter", "--grid", "tau=0.05", "0.06"), "did you mean --grid tau=0.05,0.06?"),
        (("config", "show", "tau"), "did you mean contrast help tau?"),
        (("train", "conf.yaml"), "did you mean --config conf.yaml?"),
        (("compare", "simple", "e", "--test", "bootstrap"), "did you mean --bootstrap?"),
        (("eval", "simple", "--suite", "SentEval"), "did you mean --suite transfer?"),
        (("runs", "exclude", "simple"), "contrast runs exclude simple ANCHOR NEGATIVE"),
        (("encode", "titles.csv", "-o", "v.npy", "--columns", "frage"), "write it as --columns text=title"),
        (("suggest", "faq.csv", "--data", "t.tsv"), "one alone: contrast suggest faq.csv"),
        (("export", "simple", "x", "--format", "ONNX"), "such as --format onnx: see"),
        (("export", "simple", "x", "--quantize", "int8"), "did you mean --format onnx-int8?"),
        (("train", "--loss", "MultipleNegativesRankingLoss"), "did you mean --objective simcse?"),
        (("train", "--bf16", "--output_dir", "runs/x"), "did you mean --precision bf16 and --name x?"),
        (train(*LABELLED, "--warmup", "10"), "use --warmup 0.1, or another: train.warmup (fraction"),
        (train(*LABELLED, "--warmup", "10%"), "use --warmup 0.1, or another: "),
        (train(*LABELLED, "--tau", "0,1"), "use --tau 0.1, or another: "),
        (train(*LABELLED, "--schedule", "cosine_with_restarts"), "use --schedule cosine, or another: "),
        (train(*LABELLED, "--objective", "simcse", "--teachers", "x"), "take one that has it: --objective rankcse"),
        (train(*LABELLED, "--dev", "10%"), "use --dev split:10%, or"),
        (train(*LABELLED, "--dev", "0.1"), "use --dev split:10%, or"),
        (train("--data", "a.txt b.txt"), "write them with commas: a.txt,b.txt"),
        (
            train("--data", "titles.csv", "--columns", "anchor=Title,positive=bdy"),
            "write --columns anchor=title,positive=body",
        ),
        (
            train("--data", "titles.csv", "--columns", "anchor:title,positive:body"),
            "write it as --columns anchor=title,positive=body",
        ),
        (("--preset", "starter", "train", "--no-ui"), "did you mean contrast train --no-ui --preset starter?"),
        (("eval", "--metric"), "such as --metric auto: see contrast eval --help"),
        (("encode", "x.txt", "-o", "v.npy", "--as", "passage"), "such as --as document: see contrast encode --help"),
        (("papers", "run", "simace"), "name one, such as simace table-1: contrast papers show simace lists them"),
        (("papers", "run", "simace", "table-5", "--data-dir", "none"), "give the folder that SentEval's data was"),
        (("train", "--preset", "starter", "--dims", "64", "128", "me"), "did you mean --dims 64,128?"),
        (("query", "a b", "c", "--runs-dir", "x"), "put it before the command: contrast --runs-dir x query 'a b' c"),
        (("suggest", "tiny/labelled.jsonl", "tiny/backbone"), "did you mean --backbone tiny/backbone?"),
        (("mine", "a.csv", "a.txt"), "such as -o PATH"),
        (train("--data", "same.tsv", "--labels", "e=0,n=1"), "write --labels 0=e,1=n"),
        (
            ("encode", "titles.csv", "-o", "v.npy"),
            "choose one: --columns text=title, or --columns text=body",
        ),
        (("encode", "titles.csv", "-o", "v.npy", "--columns", "body"), "write it as --columns text=body"),
        (("presets", "show", "bert-base"), "several have that: aoe-"),
        (("config", "show", "--preset", "my.toml"), "--config my.toml"),
        (
            ("sweep", "--preset", "starter", "--grid", "tau=0.1", "--seeds", "1,2,3"),
            "such as --seeds 3 --seed 1: see contrast sweep",
        ),
        (("papers", "run", "simace", "table-1", "--scale", "0,1"), "such as --scale 0.1: see contrast papers run"),
        (("encode", "a.txt", "-o", "v.npy", "--shard", "0/4"), "the first part is --shard 1/4"),
        (("query", "a b"), "search a file: contrast query 'a b' --corpus FILE"),
        (train("--data", "CMMOA.csv"), "did you mean comma.csv?"),
        (train("--data", "*a.*"), "write them with commas: a.txt,comma.csv"),
        (("data", "same.tsv", "--keep", "500-600"), "the rows are 1 to 2"),
        (train("--data", "python.jsonl"), "write them with json.dumps(row, ensure_ascii=False), a line each"),
        (("--runs-dir", "run", "watch"), "did you mean --runs-dir runs?"),
        (
            ("train", "--resume", "simple", "--lr", "0.1", "--no-ui"),
            "contrast train --no-ui --config runs/simple/config.toml",
        ),
        (("encode", "a.txt", "v.npy", "--model", "simple"), "contrast encode a.txt --model simple -o v.npy"),
        (("eval", "simple", "--format", "json"), "such as --json: see contrast eval --help"),
        (("eval", "simple,e"), "name several with blanks between: simple e"),
        (("eval", "simple", "--data", "pairs.csv", "--out", "a.json"), "--out a, or --json > a.json"),
        (("merge", "starter", "simple", "m", "--alpha", "1"), "contrast merge starter simple -o m --alpha 1"),
        (("encode", "-o", "v.npy"), "contrast encode FILE -o v.npy"),
        (("query", "-", "a text"), "with a TAB between the two of a line: contrast query -"),
        (("encode", "a b", "-o", "v.npy", "--dim", "64"), "echo 'a b' | contrast encode - -o v.npy --dim 64"),
        (("train", "--name", "own", "--resume", "own"), "or to start it where there is none: --resume-or-start own"),
        (("sweep", "--preset", "starter", "--lr", "1e-5,3e-5"), "--grid train.lr=1e-5,3e-5"),
        (
            ("sweep", "--preset", "starter", "--seed", "3,4"),
            "at most 4294967295; for several: contrast sweep --seeds 2 --seed 3",
        ),
        (("sweep", "--preset", "starter", "--seed", "5,1,2"), "--seeds 3 --seed 1 (1 to 3: seeds are counted from"),
        (("sweep", "--preset", "starter", "--tau", "0,05"), "must be a number above 0"),
        (
            ("sweep", "--preset", "starter", "--grid", "lr=1e-5:3e-5"),
            "write --grid train.lr=1e-5,3e-5, or FIRST:LAST:STEP",
        ),
        (("merge", "simple", "tiny/backbone", "-o", "m"), "contrast merge tiny/backbone simple -o m"),
        (("train", "--resume", "simple", "--lr", "0.1", "--epochs", "3"), "--lr 0.1 --epochs 3 --max-steps 0"),
        (("train", "--resume", "simple", "--lr", "1", "--epochs", "3", "--max-steps", "2"), "--epochs 3 --max-steps 2"),
        (("papers", "show", "table-1"), "name a paper before it, such as simace table-1"),
        (("runs", "simple"), "did you mean contrast runs show simple?"),
        (("simple",), "did you mean contrast runs show simple?"),
        (("query", "a", "b", "--model", "tiny/Backbone"), "did you mean 'tiny/backbone'?"),
        (
            train("--data", "chat.jsonl"),
            """jq -c '{anchor: .["turns"] | map(select(.role != "system"))[0]["content"], positive""",
        ),
        (train("--data", "chat.jsonl", "--columns", "text=turns"), """jq -c '{anchor: .["turns"] | map("""),
        (train("--data", "alike.jsonl"), """jq -c '.["set"] | .[0] as $first | .[1:][] | [$first, .]' alike.jsonl"""),
        (
            train("--data", "squad.json"),
            '.["paragraphs"][] | .["context"] as $text | .["qas"][] | {anchor: .["question"]',
        ),
        (
            train("--data", "example.jsonl"),
            """'{anchor: .["texts"][0], positive: .["texts"][1]} + del(.["texts"])' example.jsonl > texts.jsonl""",
        ),
        (train("--data", "nested.jsonl"), """jq -c '.["query"] = .["query"]["text"]' nested.jsonl > texts.jsonl"""),
        (train("--data", "same.tsv", "--labels", "0=no,1=yes"), "the same: --labels 0=contradiction,1=entailment"),
        (("runs", "rm", "simpl", "--yes"), "did you mean 'simple'?"),
        (("runs", "exclude", "simple", "a", "a"), "give the two texts of a pair"),
        (("runs", "delete", "simple"), "did you mean contrast runs rm?"),
        (("runs", "rename", "simple", "other"), "a run is its folder: mv runs/OLD runs/NEW"),
        (("runs", "tune"), "known: exclude, list, log, note, path, prune, rm, show, verify"),  # and does not prune
        (("runs", "prun"), "did you mean 'prune'?"),
        (("runs", "prune", "--keep", "2"), "such as: contrast runs prune last"),
        (("config", "set", "train.lr", "1"), "contrast config path, and edit the file that it prints?"),
        (("runs", "rm", "simple"), "contrast runs rm simple --yes"),
        (
            ("train", "--detach", "--resume", "simple", "--seeds", "3"),
            "contrast train --config runs/simple/config.toml --seeds 3",
        ),
        (("--runs-dir", "runs", "compare", "simple", "simple"), "see contrast --runs-dir runs runs"),
        (("sweep", "--resume", "simple"), "hint: contrast train --resume simple"),
        (train("--data", "-"), "write what is piped to a file, such as rows.csv, and name that"),
        (train("--data", "/dev/null"), "write what is piped to a file, such as rows.csv, and name that"),
        (
            train("--data", "https://huggingface.co/datasets/acme/faq/blob/main/data/a.csv?download=true"),
            "did you mean hf:acme/faq/data/a.csv?",
        ),
        (("query", "a", "b", "--model", "https://huggingface.co/acme/e5/tree/main"), "did you mean acme/e5?"),
        (train("--data", "https://localhost/a.csv"), "curl -LO https://localhost/a.csv, and name the file"),
        (train(*LABELLED, "--dev", "file:///tmp/a.csv"), "hint: write /tmp/a.csv"),
        (train("--data", "s3://own/a.csv"), "copy it here, and name the file"),
        (train(*LABELLED, "--dev", "split:100%"), "write a share below 100 %, such as split:5%"),
        (train("--data", "xyzzy.csv"), "the folder holds a.txt, alike.jsonl, b.txt, c.txt, chat.jsonl and 14 more"),
        (("eval", "simple"), "or measure your own pairs: --data FILE"),
        (train(*LABELLED, "--dev", "sts-b"), "did you mean stsb?"),
        (train(*LABELLED, "--limit", "1"), "read all rows: --limit 0"),
        (train(*SENTENCES, "--mine-every", "2"), "mine none: --mine-every 0"),
        (train(*LABELLED, "--dev", "same.tsv"), "rank them: --set dev.metric=ndcg@10"),
        (("compare", "simple", "tiny/backbone", "--bootstrap", "--dev", "none"), "a file, stsb or starter"),
        (("config", "show", "--config", "quoted.toml"), "at most 10, without quotes"),
        (("--runs-dir", "quoted.toml", "runs"), "name another: contrast --runs-dir DIR"),
        (("presets", "show", "princeton-nlp/sup-simcse-bert-base-uncased"), "did you mean 'simcse-sup-bert-base'?"),
        (("train", "--epochs", "0.5"), "passes over the data; less: max_steps"),
        (("sweep", "--grid", "tau=0.1:0.3:0.05"), "write --grid objective.tau=0.1,0.15,0.2,0.25,0.3"),
        (("sweep", "--grid", "epochs=1:3"), "write --grid train.epochs=1,2,3"),
        (("sweep", "--grid", "similarity=['angle', 'cosine']"), "write --grid objective.similarity=angle,cosine"),
        (("sweep", "--grid", "tau=0.05-0.1"), "write --grid objective.tau=0.05,0.1, or FIRST:LAST:STEP"),
        (("sweep", "--grid", "lr=1e-5..1e-4"), "write --grid train.lr=1e-5,1e-4, or FIRST:LAST:STEP"),
        (("sweep", "--grid", "tau=0.1:0.2:0"), "must be a number above 0"),
        (("sweep", "--preset", "starter", "--grid", "taus=0.05"), "did you mean 'objective.tau'?"),
        (("papers", "run", "simcse", "table-1"), "known: simace, pairsupcon, supcon"),
        (train(*LABELLED, "--scale", "20"), "did you mean --tau 0.05?"),
        (("train", "--resume-or-start", "simple", "--preset", "starter"), "start another: --resume-or-start NAME, or"),
        (train(*LABELLED, "--dims", "[16, 32]"), "use --dims 16,32, or another: "),
        (train(*LABELLED, "--lr", "2e5"), "use --lr 2e-5, or another: "),
        (train(*LABELLED, "--lora", "true"), "use --lora 16, or another: "),
        (train(*LABELLED, "--freeze", "40"), "at most --freeze 1"),
        (train(*LABELLED, "--freeze", "40", "--dry-run"), "at most --freeze 1"),
        (train(*LABELLED, "--lora", "2", "--lora-targets", "q_proj,v_proj", "--dry-run"), "--lora-targets query,value"),
        (
            train(*LABELLED, "--prompts", '{"query": "q: ", "passage": "p: "}'),
            "write --prompts 'anchor=q: ,positive=p: '",
        ),
        (
            train("--data", "titles.csv", "--columns", "anchor=frage,positive=body"),
            "write --columns anchor=title,positive=body",
        ),
        (
            train("--data", "titles.csv", "--columns", "anchor=1,positive=2"),
            "write --columns anchor=title,positive=body",
        ),
        (
            train("--data", "titles.csv", "--columns", "anchor=0,positive=1"),
            "write --columns anchor=title,positive=body",
        ),
        (train("--data", "titles.csv:2,comma.csv:1"), "--data titles.csv=2,comma.csv=1"),
        (train("--data", "titles.csv:2"), "of several: --data titles.csv"),
        (train("--data", "more/commas.jsonl"), "sed 's/,$//' more/commas.jsonl > rows.jsonl"),
        (train("--data", "more/numbers.jsonl"), """text: jq -c '.["positive"] |= tostring' more/numbers.jsonl"""),
        (
            train("--data", "titles.csv", "--columns", TITLES, "--objective", "pairsupcon", "--blank", "drop"),
            f"mine titles.csv --columns {TITLES} --blank drop -o triplets.jsonl; then without --columns --data",
        ),
        (train(*LABELLED, "--set", "objective.tau:0.1"), "write --set objective.tau=0.1"),
        (train(*LABELLED, "--prompts", "query:,passage:"), "write --prompts 'anchor=query: ,positive=passage: '"),
        (train(*LABELLED, "--epochs", "1.5"), "use --epochs 2, or"),
        (train(*LABELLED, "--max-steps", "1e3"), "use --max-steps 1000, or"),
        (train(*LABELLED, "--seed", "1,2,3"), "contrast sweep --seeds 3 --seed 1"),
        (train(*LABELLED, "--symmetric"), "such as --symmetric true: "),
        (("compare", "simple", "starter", "--out", "a/plot.png"), "hint: --out a/plot, or"),
        (("eval", "runs/simple/checkpoints/best", "--data", "titles.csv"), "name the run: runs/simple. Else"),
        (("encode", "titles.csv", "-o", "x.npy", "--normalize_embeddings"), "did you mean --normalize alone?"),
        (("query", "a", "--corpus", "x.txt", "--top-k", "3"), "did you mean -k 3?"),
        (("mine", "x.csv", "-o", "y.csv", "--num_negatives", "3"), "did you mean -n 3?"),
        (("eval", "tiny/backbone", "--suite", "sts", "transfer"), "use --suite sts,transfer"),
        (("eval", "tiny/backbone", "--suite", "stss"), "did you mean 'sts'?"),
        (("eval", "tiny/backbone", "tiny/dev.jsonl"), "as data: --data tiny/dev.jsonl"),
        (("data", "my", "faq.csv"), "did you mean 'my faq.csv'?"),
        (("train", "--preset", "simcse"), "did you mean 'simcse-bert-base'?"),
        (("trian",), "did you mean 'train'?"),
    ],
)
def test_a_hint_names_what_was_meant(contrast: Contrast, run: Run, words: tuple[str, ...], hint: str) -> None:
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    shutil.copytree("tiny/backbone", "several/checkpoint-500")
    answer = contrast(*words)
    assert answer.code in (2, 3)
    failed(answer, answer.code, "", hint.removeprefix("hint: "))


@pytest.mark.parametrize(
    ("variable", "ours"),
    [
        ("TRAIN_LERNING_RATE", "TRAIN_LR'"),
        ("TRAIN_LEARNING_RATE", "TRAIN_LR'"),
        ("TRAIN_MAX_SEQ_LENGTH", "MODEL_MAX_LENGTH'"),
        ("TRAIN_WARMUP_STEPS", "TRAIN_WARMUP', a share of the steps"),
        ("TRAIN_BACH_SIZE", "TRAIN_BATCH_SIZE'"),
        ("LR", "TRAIN_LR'"),
        ("LEARNING_RATE", "TRAIN_LR'"),
        ("DATA", "DATA_TRAIN'"),
    ],
)
def test_a_variable_of_no_setting_is_refused(
    contrast: Contrast, monkeypatch: pytest.MonkeyPatch, variable: str, ours: str
) -> None:
    monkeypatch.setenv(f"CONTRAST_{variable}", "1")
    monkeypatch.setenv("CONTRAST_MODEL", "starter")
    monkeypatch.setenv("CONTRAST_TRAIN_LR", "1e-4")
    for words in (("config", "show"), ("train", "--resume", "simple"), ("sweep", "--resume", "mine")):
        refused(contrast(*words), 2, f"CONTRAST_{variable}", f"did you mean 'CONTRAST_{ours}?")


def test_an_error_as_json_quotes_the_runs_directory(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTRAST_PROGRESS", "json")
    (remedy,) = json.loads(contrast("--runs-dir", "it's", "query", "a", "b").err)["remedies"]
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


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions hold for the tests' user too, who may be root."""

    def access(path: str | Path, mode: int) -> bool:
        return bool(Path(path).stat().st_mode & stat.S_IWUSR)

    monkeypatch.setattr("os.access", access)


@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize(
    ("target", "path", "shut", "hint"),
    [
        ("runs", "runs", ".", "chmod u+w ."),
        ("runs/one/lock", "runs/one", "runs/one", "chmod -R u+w runs/one"),
        ("runs/one/checkpoints/2", "runs/one", "runs/one/checkpoints", "chmod -R u+w runs/one"),
        ("runs/one", "runs/one", "runs", "chmod u+w runs"),
        ("my out/v.npy", "my out/v.npy", "my out", "chmod u+w 'my out'"),
        ("/nowhere/v.npy", "/nowhere/v.npy", ".", "name a folder of your own"),
    ],
)
def test_what_is_closed_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, path: str, shut: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my out", *(("runs/one/checkpoints",) if path != target or target == "runs/one" else ())):
        Path(folder).mkdir(parents=True)
    Path(shut).chmod(0o555)
    with pytest.raises(RunError) as error, writing_to(Path(path)):
        raise PermissionError(errno.EACCES, "Permission denied", target)
    Path(shut).chmod(0o755)
    assert error.value.hint == hint


@pytest.mark.usefixtures("closed")
def test_what_is_closed_by_another_user_is_for_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    tmp_path.chmod(0o555)
    with pytest.raises(RunError) as error, writing_to(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "note.txt"))
    assert error.value.hint == f"have the owner of {tmp_path} do it, or name a folder of your own"


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


def test_a_command_has_the_typed_detach_unless_it_has_seeds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "_typed_runs_dir", "")
    monkeypatch.setattr(boundary, "_typed_flags", "--detach")
    told = boundary.to_copy("contrast train --resume a; or contrast train --config b --seeds 3")
    assert told == "contrast train --detach --resume a; or contrast train --config b --seeds 3"
