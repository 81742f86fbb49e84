"""Click's types, and the options of every command but those that are made from the settings."""

import math
import os
from pathlib import Path
from typing import Any, Literal, get_args

import click
from click.shell_completion import CompletionItem, shell_complete

from contrastcli import boundary
from contrastcli.errors import DataError, UsageError
from contrastcli.evaluation.suites import SUITES
from contrastcli.runs import directory as runs
from contrastcli.settings import presets, sections

COMPLETE, SHELLS = "_CONTRAST_COMPLETE", ("bash", "fish", "zsh")
"""The variable by which a shell asks for completions, and the shells that click knows."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True}


class Number(click.FloatRange):
    """A number between bounds, and not NaN, which no bound excludes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class AutoOrNumber(Number):
    """The same, or auto, which is None."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return None if value == "auto" else super().convert(value, param, ctx)


def complete_preset(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The presets whose names begin so."""
    return [name for name in (*presets.names(), *presets.sweep_names()) if name.startswith(incomplete)]


def complete(group: click.Group, instruction: str) -> int:
    """Do what a shell asks for, as click names it: `bash_source` or `bash_complete`. Raises UsageError."""
    if code := shell_complete(group, {}, "contrast", COMPLETE, instruction):
        hint = f"{COMPLETE} is SHELL_source, SHELL being one of {', '.join(SHELLS)}"
        raise UsageError(f"'{instruction}' is no instruction of a completion", hint)
    return code


class RunName(click.ParamType[runs.Run]):
    """The name of a run, of which the command gets the run; a part of a name will do, unless it must be `whole`."""

    name = "run"

    def __init__(self, *, whole: bool = False) -> None:
        self._whole = whole

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The runs whose names begin so; the shell adds the files, bash where there is no such run."""
        every = runs.list_runs(runs.runs_dir(ctx.find_root().params.get("runs_dir")))
        names = [name for name in ("last", *(run.name for run in every)) if name.startswith(incomplete)]
        # What bash was told before this one it forgets.
        return [CompletionItem(incomplete, type="file"), *map(CompletionItem, names)]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> runs.Run:
        assert ctx
        if isinstance(value, runs.Run):
            return value
        run = runs.find_run(value, ctx.obj)
        if self._whole and value != "last" and Path(value).absolute().name != run.name:
            raise DataError(f"there is no run '{value}' in {ctx.obj}", f"did you mean '{run.name}'?")
        return run


class _Path(click.Path):
    """One's home folder is `~` in --out=~/here too, where no shell replaces it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(os.path.expanduser(value), param, ctx)


RUN = RunName()
ONE_RUN = click.Argument(["run"], type=RUN, default="last")
PATH = _Path(path_type=Path)


def _option(names: str, help: str, **how: Any) -> click.Option:
    """The option of these words, of which the first is what one types, and another its name in the command."""
    return click.Option(names.split(), help=help, **how)


def _choice(names: str, choices: Any, help: str, default: str | None = None) -> click.Option:
    """An option whose values are those of a Literal."""
    return _option(names, help, type=click.Choice(get_args(choices)), default=default)


_Form = Literal["text", "markdown", "latex", "csv"]
_A_MODEL: dict[str, Any] = {"metavar": "RUN|FOLDER|NAME", "shell_complete": RUN.shell_complete}

# It is read first: there is no table beside JSON.
JSON = _option("--json", "Print JSON.", is_flag=True, is_eager=True)
MODEL = _option("--model", "Default: CONTRAST_MODEL, else the newest run.", **_A_MODEL)
POOLING = _option(
    "--pooling",
    "Use this pooling instead of the model's own, which is auto.",
    type=click.Choice(["auto", *get_args(sections.Pooling)]),
    callback=lambda context, option, value: None if value == "auto" else value,
)
PRECISION = _choice(
    "--precision", sections.Precision, "How the encoder computes; int8 needs a CPU with VNNI or AMX.", "fp32"
)
KIND = _choice("--as kind", sections.Kind, "What the texts are, for a model with a prompt for each.")
_KEPT = "Keep the first N numbers of every embedding"
DIM = _option("--dim", f"{_KEPT}.", type=click.IntRange(min=1), metavar="N")
COLUMNS = _option(
    "--columns", "What the columns are: text=body,id=key or anchor=a,positive=b.", default="", metavar="ROLES"
)
LABELS = _option("--labels", "What labels mean: 0=entailment,1=neutral,2=contradiction.", default="", metavar="NAMES")
OVERWRITE = _option("--overwrite", "Replace an earlier export there.", is_flag=True)
DRY_RUN = _option("--dry-run", "Show what would be done.", is_flag=True)
BLANK = _choice("--blank", sections.Blank, "Rows with a blank text: refuse the data, or leave them out.", "error")

SETTINGS = (
    _option("--preset", "A published setting: see contrast presets.", metavar="NAME", shell_complete=complete_preset),
    _option("--config file", "A TOML file of settings.", metavar="FILE", type=PATH),
    _option("--set typed", "Any setting: contrast help settings has the defaults.", multiple=True, metavar="KEY=VALUE"),
    JSON,
)
"""Sources of settings."""

JOB = (
    *SETTINGS,
    _option("--name", "Name of the run, or of the sweep of several.", metavar="NAME"),
    _option("--resume", "Resume the run or the sweep of this name.", metavar="NAME", shell_complete=RUN.shell_complete),
    _option("--seeds", "Train with N seeds, from train.seed on.", type=click.IntRange(min=1), metavar="N"),
    _option("--dry-run", "Show what would be done, and stop before loading weights.", is_flag=True),
)
"""Options of the commands that train."""

SWEEPING = (
    *JOB,
    _option("--grid axes", "A setting, and its values.", multiple=True, metavar="KEY=A,B"),
    _option("--worker", "Take free cells next to others that do, here or elsewhere.", is_flag=True),
    _option("--workers", "Processes that train side by side here.", type=click.IntRange(1, 64), default=1),
)

TRAINING = (
    *JOB,
    _option("--no-ui", "Print progress here instead of opening the app.", is_flag=True),
    _option("--detach", "Train in the background and return at once.", is_flag=True),
    _option("--resume-or-start", "Resume this run, or start it under this name.", metavar="NAME"),
    _option("--after", "Begin when this run has ended, however it ends.", type=RUN),
)


def _of_a_table(context: click.Context, option: click.Parameter, form: str) -> str:
    """Raises UsageError for a form of tables beside --json."""
    if form != "text" and context.params.get("json"):
        raise UsageError(f"--json prints no table in {form}", "leave out --json or --format")
    return form


FORMAT = _option(
    "--format form",
    "How tables are written; latex needs the package booktabs.",
    type=click.Choice(get_args(_Form)),
    default="text",
    callback=_of_a_table,
)

_SUITES = f"What to measure: {', '.join(SUITES)}, or another package's. Default: sts, or own if there is --data."
MEASURING = (
    click.Argument(["models"], nargs=-1, metavar="[RUN|MODEL]..."),
    _option("--suite suites", _SUITES, multiple=True, metavar="NAME,…"),
    _option("--task tasks", "Only these tasks of the suites.", multiple=True, metavar="NAME,…"),
    _option("--data-dir", "A folder in SentEval's layout; else the hub.", type=PATH),
    _option("--data files", "Your own pairs, scored or not, or triplets; repeatable.", multiple=True, metavar="FILE"),
    COLUMNS,
    BLANK,
    LABELS,
    _choice(
        "--metric",
        sections.Metric,
        "Of --data: the score that is compared; auto: spearman of scored and labelled pairs, else ndcg@10.",
        "auto",
    ),
    POOLING,
    PRECISION,
    _option("--dim dims", f"{_KEPT}; repeatable.", multiple=True, type=click.IntRange(min=1), metavar="N"),
    _option("--out folder", "Also write scores and pictures there.", type=PATH),
    _option("--fresh", "Ignore cached results and measure again.", is_flag=True),
    FORMAT,
    JSON,
)

COMPARING = (
    click.Argument(["words"], nargs=-1, required=True, metavar="RUN|MODEL..."),
    _option("--bootstrap", "Also compare two models by a paired bootstrap on dev data.", is_flag=True),
    _option("--dev", "The data of that. Default: the dev set of the runs.", metavar="DATA"),
    _option("--require", "Fail unless that shows it of the second.", type=click.Choice(["better", "not-worse"])),
    COLUMNS,
    BLANK,
    _option("--plot", "Draw angles, alignment and uniformity over training.", is_flag=True),
    _option("--out", "Also write the pictures there, as PNG, SVG and CSV.", type=PATH),
    FORMAT,
    JSON,
)

SOURCE = click.Argument(["source"], metavar="FILE|-")
VECTORS = _option("-o --output", ".npy, .safetensors or .parquet.", required=True, type=PATH)
DTYPE = _choice("--dtype", sections.Dtype, "The numbers that are written, however they were computed.", "float32")
SHARD = _option("--shard", "Encode the K-th of N equal parts of the rows.", default="1/1", metavar="K/N")
UNIT = _option("--normalize", "Scale each vector to unit length, for an index of inner products.", is_flag=True)
ENCODING = (SOURCE, MODEL, DIM, UNIT, KIND, COLUMNS, BLANK, PRECISION, DTYPE, SHARD, VECTORS)

TEXTS = click.Argument(["texts"], nargs=-1, required=True, metavar="A B | TEXT | -")
CORPUS = _option("--corpus", "Find the nearest sentences of this file; of pairs, the positives.", type=PATH)
COUNT = _option("-k count", "How many of them.", type=click.IntRange(min=1), default=5)
_VECTORS = "Those of --corpus, as contrast encode wrote them (.npy); repeatable, for its parts in order."
STORED = _option("--vectors", _VECTORS, type=PATH, multiple=True, metavar="FILE")
QUERYING = (TEXTS, MODEL, DIM, COLUMNS, BLANK, POOLING, PRECISION, JSON, CORPUS, STORED, COUNT)

EXPORTING = (
    click.Argument(["model"], metavar="RUN|MODEL"),
    click.Argument(["dest"], type=PATH, required=False),
    _option("--push repo", "Also to the hub, privately; DEST is not needed then.", metavar="OWNER/NAME"),
    _option("--public", "Let all see a repository that --push creates.", is_flag=True),
    _option("--dry-run", "With --push: show what would be uploaded.", is_flag=True),
    _option("--dim", f"{_KEPT}; static has 256, unless given.", type=click.IntRange(min=1), metavar="N"),
    _option("--adapter", "Export the adapter of a run with LoRA alone; else it is merged.", is_flag=True),
    OVERWRITE,
    _choice("--format kind", sections.Format, "", "sentence-transformers"),
    _option("--min-cosine", "Refuse below this cosine to the model: 0.9999, int8 0.95.", type=Number(-1, 1)),
)

MERGING = (
    click.Argument(["base"], metavar="BASE", shell_complete=RUN.shell_complete),
    click.Argument(["runs"], nargs=-1, required=True, metavar="RUN...", shell_complete=RUN.shell_complete),
    _option("-o --out dest", "The new folder.", required=True, type=PATH, metavar="DIR"),
    _option("--alpha", "Share of the runs; auto: the best on dev data.", type=AutoOrNumber(0, 1), default="auto"),
    _option("--dev", "Dev data; none: measure nothing. Default: those of the runs.", metavar="DATA"),
    _option("--general", "A set to keep the score on. Default: that of the first run.", metavar="DATA"),
    COLUMNS,
    BLANK,
    OVERWRITE,
    JSON,
)

MINING = (
    click.Argument(["source"], metavar="DATA"),
    MODEL,
    _option("-o --output", ".jsonl, .csv, .tsv or .parquet.", required=True, type=PATH),
    _option("-n negatives", "Negatives of each row.", type=click.IntRange(min=1), default=1),
    _option("--corpus", "Choose from its sentences, not from the positives.", default="", metavar="FILE"),
    COLUMNS,
    LABELS,
    BLANK,
    _option("--ranks", "Which of the nearest may be negatives.", default="1-1000", metavar="A-B"),
    _option("--below", "Most cosine of a negative, as a share (0.95) of its positive's; 0: any.", type=Number(0, 1)),
    _option("--margin", "Instead: a negative's cosine is lower than its positive's by this.", type=Number(-2, 2)),
    _option("--guard", "Drop negatives that this model finds closer than the positive.", default="", metavar="MODEL"),
    _option("--score-with", "Write the scores of this embedder or cross-encoder too.", default="", metavar="MODEL"),
    _option("--show", "Print the N hardest rows.", type=click.IntRange(min=0), default=0, metavar="N"),
    PRECISION,
    JSON,
)

BACKBONE = _option("--backbone", "What to start from. Default: yours, else one that is on this machine.", **_A_MODEL)
NO_TRIAL = _option("--no-trial", "Do not try some steps for their time and memory.", is_flag=True)
SUGGESTING = (click.Argument(["source"], metavar="DATA"), BACKBONE, COLUMNS, LABELS, BLANK, NO_TRIAL, JSON)
LOOKING = (
    click.Argument(["source"], metavar="DATA"),
    _option("--backbone model", "Count its tokens, and search false negatives with it.", **_A_MODEL),
    _option("--dev", "Look for texts of this dev set.", default="", metavar="DATA"),
    COLUMNS,
    LABELS,
    _option("--list-columns", "List the columns alone, with role and first value, from the first rows.", is_flag=True),
    _option("--show count", "Print the N strangest rows of each kind.", type=click.IntRange(min=0), default=10),
    _option("--clean", "Write the rows that remain: .jsonl, .csv, .tsv or .parquet.", type=PATH, metavar="FILE"),
    _option("--drop", "Kinds and rows, such as near,7-9, to leave out.", default="", metavar="A,B"),
    _option("--keep", "Kinds and row numbers not to leave out.", default="", metavar="A,B"),
    JSON,
)

BENCH = (
    _option("--model", "", default="starter", **_A_MODEL),
    _option("--rounds", "Measurements of each.", type=click.IntRange(min=1), default=3),
    _option("--minutes", "In all; a round that has begun by then is finished.", type=Number(min=0), default=10.0),
    JSON,
)

ITEM = (
    click.Argument(["paper"], default=""),
    click.Argument(["key"], metavar="ITEM", default=""),
    _option("--rows", "Only these rows.", metavar="A,B"),
    _option("--backbones", "Only these backbones.", metavar="A,B"),
    _option("--seeds", "Default: as many as the paper has.", type=click.IntRange(1, 100), metavar="N"),
    _option("--scale", "Part of the training rows.", type=Number(0, 1, min_open=True)),
    _option("--set assignments", "Any setting of all runs, or of a row's.", multiple=True, metavar="[ROW:]KEY=VALUE"),
    _option("--data-dir", "A folder in SentEval's layout; else the hub.", metavar="DIR"),
)
"""The table or figure of a paper, and how to make it."""

TABLE_FORMAT = _choice("--format form", Literal[_Form, "json"], "", "text")
PICTURES = _option("--out", "Write the pictures there, as PNG, SVG and CSV.", type=PATH)
TRACKER = _option("--to", "", required=True, type=click.Choice(get_args(sections.Tracker)))
FOLLOW = _option("--follow", "Until the run ends.", is_flag=True)
WAIT = _option("--wait", "Seconds to wait for its end.", type=Number(min=0), default=60)

MAKING = (*ITEM, DRY_RUN, _option("--detach", "Run in the background and return at once.", is_flag=True))
"""The same, to make it now."""

HOST = _option(
    "--host",
    "On another machine, by ssh; DIR: the folder to work in there.",
    metavar="HOST[:DIR]",
    expose_value=False,
    is_eager=True,
    callback=lambda ctx, param, host: None if ctx.resilient_parsing else boundary.run_on_host(host),
)

OPENING = (
    HOST,
    click.Argument(["run"], type=RUN, required=False),
    _option("--no-mouse", "Leave the mouse to the terminal.", is_flag=True),
)
_WORDS = click.Argument(["text"], nargs=-1, required=True, callback=lambda ctx, param, words: " ".join(words))
NOTING = (click.Argument(["run"], type=RUN), _WORDS)
EXCLUDING = (
    *(click.Argument(["run"], type=RUN), click.Argument(["anchor"]), click.Argument(["negative"])),
    _option("--undo", "Take this back.", is_flag=True),
)
SOME_RUNS = click.Argument(["chosen"], type=RunName(whole=True), nargs=-1, metavar="[RUN...]")
DELETING = (
    click.Argument(["chosen"], type=RunName(whole=True), nargs=-1, required=True, metavar="RUN..."),
    _option("--yes", "Do not ask.", is_flag=True),
)
