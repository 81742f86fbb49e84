"""The command line: stdout is the result, stderr is narration. A command loads what only it needs, torch above all."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contrastcli import __version__, commands, options, show
from contrastcli.files import user_file
from contrastcli.model.locate import resolve
from contrastcli.runs import directory as runs
from contrastcli.runs import process, stream
from contrastcli.runs.text import printable
from contrastcli.settings import presets

if TYPE_CHECKING:
    from contrastcli.commands.export import Format
    from contrastcli.settings.papers import Item, Request
    from contrastcli.show.papers import Format as TableFormat
    from contrastcli.show.pictures import Picture


@click.group(cls=options.Group, context_settings=options.CONTEXT)
@click.version_option(__version__, prog_name="contrast")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--runs-dir", metavar="DIR", help="The runs directory. Default: CONTRAST_RUNS, else ./runs.")
@click.pass_context
def cli(ctx: click.Context, debug: bool, runs_dir: str | None) -> None:
    """Train sentence embeddings with contrastive objectives, and see what that does to the angles between sentences.

    contrast train --preset starter --no-ui
    contrast query "a dog runs" "a puppy sprints"
    """
    ctx.obj = runs.runs_dir(runs_dir)


@cli.command()
@click.argument("run", required=False)
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal.")
@options.on_host
@click.pass_obj
def tui(directory: Path, run: str | None, no_mouse: bool) -> None:
    """Open the full-screen app, on a run if one is named.

    contrast tui
    contrast tui last
    contrast tui --host user@machine:project
    """
    options.check_terminal()
    from contrastcli.tui import app  # textual is loaded only when the app is opened

    app.show(directory, runs.find(run, directory) if run else None, mouse=not no_mouse)


@cli.command(cls=options.SettingsCommand, params=[*options.JOB])
@click.option("--no-ui", is_flag=True, help="Print progress here instead of opening the app.")
@click.option("--detach", is_flag=True, help="Train in the background and return at once.")
@click.option("--resume-or-start", metavar="NAME", help="Resume this run, or start it under this name.")
@click.option("--after", metavar="RUN", help="Begin when this run has ended, however it ends.")
@click.pass_obj
def train(directory: Path, job: options.Job, no_ui: bool, detach: bool, after: str | None) -> int:
    """Train a sentence encoder.

    contrast train --preset starter --no-ui
    contrast train --preset simace-bert-base --data texts.txt --dry-run
    contrast train --resume last --epochs 5
    """
    options.check_training(job, detach, after)
    if job.seeds is not None:
        return _sweep(directory, job, ())
    run, config = options.run_and_config(job, directory)
    behind = runs.find(after, directory) if after else None
    if job.dry_run:
        runs.run_name(job.run_name, config, directory)  # raises an error for a bad one
        _print(show.settings.dry_run(commands.train.preview(config, directory), config, job.json))
        return 0
    if no_ui or detach or job.json or not options.on_a_terminal():
        return commands.train.start(config, run, directory, job.run_name, after=behind, json=job.json, detach=detach)
    from contrastcli.tui import app  # textual is loaded only when the app is opened

    return commands.train.start(config, run, directory, job.run_name, after=behind, show=partial(app.show, directory))


@cli.command(cls=options.SettingsCommand, params=[*options.JOB])
@click.option("--grid", "axes", multiple=True, metavar="KEY=A,B", help="A setting, and its values.")
@click.pass_obj
def sweep(directory: Path, job: options.Job, axes: Sequence[str]) -> int:
    """Train a grid of settings, with several seeds.

    contrast sweep --preset simace-grid
    contrast sweep --preset starter --grid objective.tau=0.05,0.06 --seeds 5
    contrast sweep --resume last
    """
    return _sweep(directory, job, axes)


def _sweep(directory: Path, job: options.Job, axes: Sequence[str]) -> int:
    chosen = options.sweep(job, axes, directory)
    text, code = commands.sweep.run(chosen, directory, job.resume is None, job.dry_run, job.json)
    _print(text)
    return code


@cli.group("runs")
def runs_group() -> None:
    """List, show and remove runs.

    contrast runs
    contrast runs show last --json
    contrast runs prune
    """


@runs_group.command("list")
@options.as_json
@options.on_host
@click.pass_obj
def list_(directory: Path, json: bool) -> None:
    """List all runs, the newest first.

    contrast runs list --json
    contrast runs list --host user@machine:project
    """
    _print(show.runs.run_list(runs.list_runs(directory), directory, json))


@runs_group.command("show")
@options.of_run
@options.as_json
def show_run(run: runs.Run, json: bool) -> None:
    """Show the status, scores, checkpoints and settings of a run.

    contrast runs show last
    contrast runs show simace --json
    """
    _print(show.runs.run_details(run, json))


@runs_group.command()
@options.of_run
def path(run: runs.Run) -> None:
    """Print the directory of a run.

    contrast runs path last
    tail -f "$(contrast runs path last)/events.jsonl"
    """
    show.console.print_path(run.path)


@runs_group.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def rm(directory: Path, names: Sequence[str], yes: bool) -> None:
    """Delete runs.

    contrast runs rm 2026-11-20-1432-simace-bert-base-7f3a
    contrast runs rm last --yes
    """
    for run in dict.fromkeys([runs.find(name, directory) for name in names]):
        if yes or click.confirm(printable(f"Delete {run.path}?"), err=True):
            runs.remove(run)
            show.console.narrate(f"deleted {run.path}")


@runs_group.command()
@click.argument("names", nargs=-1, metavar="[RUN...]")
@click.pass_obj
def prune(directory: Path, names: Sequence[str]) -> None:
    """Delete from runs that have ended what only a resume needs.

    That is the state of the optimiser, most of a checkpoint. Without names, all runs are pruned.

    contrast runs prune
    contrast runs prune last
    """
    chosen = [runs.find(name, directory) for name in names] or runs.list_runs(directory)
    show.console.narrate(f"freed {show.format.size(runs.prune(chosen))}")


@runs_group.command()
@options.of_run
@click.option("--replay", type=click.IntRange(min=1), metavar="K", help="Also train K steps again and compare bits.")
@options.as_json
def verify(run: runs.Run, replay: int | None, json: bool) -> None:
    """Check every file of a run, which may be in training.

    contrast runs verify last
    contrast runs verify simace --replay 100
    """
    checks = commands.verify.verify(run, replay)
    _print(show.runs.checks(checks, json))
    commands.verify.raise_first_fault(checks)


@runs_group.command()
@click.argument("run")
@click.argument("text")
@click.pass_obj
def note(directory: Path, run: str, text: str) -> None:
    """Write a note on a run; its words with # are tags.

    contrast runs note last "the best so far #paper"
    contrast runs note simace ""
    """
    noted = runs.find(run, directory)
    noted.write_note(text)
    show.console.narrate(f"note on {noted.name}: {text}" if text else f"no note on {noted.name}")


@runs_group.command()
@click.pass_obj
def serve(directory: Path) -> None:
    """Send all runs and then their changes: what --host reads elsewhere.

    contrast runs serve
    contrast runs serve < /dev/null | head -c 1000
    """
    stream.serve(directory, sys.stdin.buffer, sys.stdout.buffer)


@cli.command()
@options.on_host
@options.of_run
@options.as_json
def watch(run: runs.Run, json: bool) -> int:
    """Follow a run to its end, and exit with its exit code.

    contrast watch last
    contrast watch simace --json | jq .loss
    contrast watch last --host user@machine:project
    """
    return commands.train.watch(run, json)


@cli.command()
@options.of_run
@click.option("--wait", type=options.Number(min=0), default=60, help="Seconds to wait for its end.")
def stop(run: runs.Run, wait: float) -> None:
    """Ask a run to save and stop.

    contrast stop last
    contrast stop simace --wait 0
    """
    process.request_stop(run)
    status = process.wait_for_end(run, wait)
    show.console.narrate(f"{run.name}: {status.state} at step {status.step:,}")


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--bootstrap", is_flag=True, help="Also compare two models by a paired bootstrap on dev data.")
@click.option("--dev", metavar="DATA", help="The data of --bootstrap. Default: the dev set of the runs.")
@click.option("--plot", is_flag=True, help="Draw angles, alignment and uniformity over training.")
@click.option("--out", type=options.PATH, help="Also write the pictures there, as PNG, SVG and CSV.")
@options.as_json
@click.pass_obj
def compare(
    directory: Path, names: Sequence[str], bootstrap: bool, dev: str | None, plot: bool, out: Path | None, json: bool
) -> None:
    """Compare the settings and results of runs.

    Runs that differ only in their seed are one method, with mean and standard deviation. Two get Welch's test.

    contrast compare simcse simace
    contrast compare simcse simace --bootstrap --dev stsb
    contrast compare simcse simace --plot --out pictures
    """
    chosen = commands.compare.check([runs.find(name, directory) for name in names], bootstrap, dev, out)
    _print(show.runs.run_comparison(commands.compare.compare(chosen, bootstrap, dev), json))
    if plot or out:
        _show_pictures(commands.compare.draw(chosen), plot and not json, out)


@cli.command("eval", params=[*options.MEASURING])
@click.argument("models", nargs=-1, metavar="[RUN|MODEL]...")
@options.as_json
@click.pass_obj
def eval_(directory: Path, /, models: Sequence[str], json: bool, **request: Any) -> None:
    """Evaluate runs, models or files of word vectors.

    contrast eval last --data-dir SentEval/data/downstream
    contrast eval bert-base-uncased --suite sts,transfer --pooling first-last
    contrast eval simcse simace --suite sts,geometry --out pictures
    """
    scores, drawn = commands.evaluate.measure(models, directory, **request)
    _print(show.scores.scores(scores, json))
    _show_pictures(drawn, not json, request["folder"])
    commands.evaluate.check_measured(scores)


@cli.command()
@click.argument("source", metavar="FILE|-")
@click.option("-o", "--output", required=True, type=options.PATH, help=".npy, .safetensors or .parquet.")
@options.model
@options.precision
@click.pass_obj
def encode(directory: Path, /, source: str, output: Path, **how: Any) -> None:
    """Write a vector for each sentence of a file, in the same order.

    contrast encode sentences.txt -o vectors.npy
    contrast encode questions.tsv -o vectors.parquet --model last --precision bf16
    contrast encode - -o vectors.safetensors < sentences.txt
    """
    count, width = commands.encode.encode_file(source, output, runs_dir=directory, **how)
    show.console.narrate(f"wrote {output}: {count:,} vectors of {width}")


@cli.command(params=[*options.MINING])
@click.argument("source", metavar="DATA")
@click.pass_obj
def mine(directory: Path, /, source: str, output: Path, ranks: str, negatives: int, json: bool, **how: Any) -> None:
    """Add hard negatives to pairs, for training on triplets.

    They are the texts nearest to an anchor that are not its positive, nor as close as that. Next to the output a file
    .mined says how it was made.

    contrast mine pairs.csv -o triplets.jsonl --show 20
    contrast mine faq.csv --columns anchor=title,positive=body -o out.csv
    contrast mine pairs.csv -o out.parquet --corpus texts.txt --ranks 10-60
    """
    rule = commands.mine.make_rule(ranks, how.pop("below"), how.pop("margin"), negatives)
    made = commands.mine.mine_file(source, output, directory, rule, **how)
    _print(show.answers.mined(made, json))
    commands.mine.report(made, output)


@cli.command()
@click.argument("texts", nargs=-1, required=True, metavar="A B | TEXT | -")
@options.model
@options.pooling
@options.precision
@click.option("--corpus", type=options.PATH, help="Find the nearest sentences of this file; of pairs, the positives.")
@click.option("-k", type=click.IntRange(min=1), default=5, help="How many of them.")
@options.as_json
@click.pass_obj
def query(directory: Path, /, texts: Sequence[str], model: str | None, corpus: Path | None, k: int, **how: Any) -> None:
    """Show the cosine of two sentences, or the nearest in a file.

    With -, of TAB-separated pairs or, with --corpus, of sentences on stdin, each line answered as it comes.

    contrast query "a dog runs" "a puppy sprints"
    contrast query "how do I reset my password" --corpus faq.csv -k 10
    contrast query - --model last --json < pairs.tsv
    """
    commands.query.check(texts, corpus)
    ref, ask = resolve(model, directory), commands.query
    _print(ask.neighbours(texts, ref, corpus, k, **how) if corpus else ask.similarities(texts, ref, **how))


@cli.command()
@click.argument("model", metavar="RUN|MODEL")
@click.argument("dest", type=options.PATH)
@click.option("--format", "kind", type=click.Choice(["sentence-transformers", "onnx"]), default="sentence-transformers")
@click.option("--overwrite", is_flag=True, help="Replace what is in DEST.")
@click.pass_obj
def export(directory: Path, model: str, dest: Path, kind: Format, overwrite: bool) -> None:
    """Export a model for sentence-transformers, or as ONNX.

    contrast export last ./my-encoder
    contrast export simace ./my-onnx --format onnx
    """
    show.console.print_path(commands.export.export_model(resolve(model, directory), dest, kind, overwrite=overwrite))
    if kind == "sentence-transformers":
        show.console.narrate(f'next: contrast query "a dog runs" "a puppy sprints" --model {dest}')


@cli.group("presets")
def presets_group() -> None:
    """List and show the published settings that come with contrast.

    contrast presets
    contrast presets show simace-bert-base
    """


@presets_group.command("list")
@options.as_json
def list_presets(json: bool) -> None:
    """List all presets; those of sweeps come last.

    contrast presets list
    contrast presets list --json
    """
    _print(show.settings.preset_list(json))


@presets_group.command("show")
@click.argument("name")
def show_preset(name: str) -> None:
    """Show a preset as a file, with published results and memory.

    contrast presets show starter
    contrast presets show simace-bert-base > mine.toml
    """
    _print(show.settings.preset_details(presets.find(name)))


@cli.group("papers")
def papers_group() -> None:
    """Make the tables and figures of three papers again.

    contrast papers
    contrast papers show simace table-1
    contrast papers run simace table-1 --scale 0.002 --set model.backbone=starter
    """


@papers_group.command("list")
@options.as_json
@click.pass_obj
def list_papers(directory: Path, json: bool) -> None:
    """List every table and figure, what it needs and what is made of it.

    contrast papers list
    contrast papers list --json
    """
    _print(show.papers.listing(commands.papers.overview(directory), json))


@papers_group.command("show")
@options.of_item
def show_item(item: Item, request: Request, directory: Path) -> None:
    """Show an item's printed numbers, and what each row takes.

    contrast papers show simace table-1
    contrast papers show pairsupcon table-3 --backbones BERT-base
    """
    made = commands.papers.find(item, request, directory)
    _print([show.papers.numbers(item, request, made, "text"), "\n"] if item.tables else [])
    _print(show.papers.plan(item, request, made, with_notes=not item.tables))


@papers_group.command("run")
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option("--detach", is_flag=True, help="Run in the background and return at once.")
@options.of_item
def run_item(item: Item, request: Request, directory: Path, dry_run: bool, detach: bool) -> int:
    """Train and measure what a table or figure needs and is not there.

    contrast papers run simace table-1
    contrast papers run simace table-2 --rows SimCSE,SimACE --detach
    contrast papers run supcon table-4 --scale 0.01 --set model.backbone=starter
    """
    commands.papers.check(item, request)
    if dry_run:
        _print(show.papers.plan(item, request, commands.papers.find(item, request, directory)))
        return 0
    return (commands.papers.detach if detach else commands.papers.run)(item, request, directory)


@papers_group.command("table")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "latex", "csv", "json"]), default="text")
@options.of_item
def table_item(item: Item, request: Request, directory: Path, form: TableFormat) -> None:
    """Print a table, ours next to the paper's.

    contrast papers table simace table-1
    contrast papers table simace table-1 --format latex
    """
    _print(show.papers.numbers(item, request, commands.papers.find_table(item, request, directory), form))


@papers_group.command("figure")
@click.option("--out", type=options.PATH, help="Write the pictures there, as PNG, SVG and CSV.")
@options.of_item
def figure_item(item: Item, request: Request, directory: Path, out: Path | None) -> None:
    """Draw a figure from what was trained for it.

    contrast papers figure simace figure-1
    contrast papers figure simace figure-4 --out pictures
    """
    _show_pictures(commands.papers.figure(item, request, directory), out is None, out)


@cli.group("config")
def config_group() -> None:
    """Show the settings that a run would use, and their sources.

    contrast config show --preset starter
    contrast config path
    """


@config_group.command("show", cls=options.SettingsCommand, params=[*options.SETTINGS])
def show_config(job: options.Job) -> None:
    """Show each setting with its value and the source of the value.

    contrast config show --preset simace-bert-base --tau 0.07
    contrast config show --json
    """
    _print(show.settings.settings(options.resolve(job), job.json))


@config_group.command("path")
def config_path() -> None:
    """Print the path of your own settings file, which need not exist.

    contrast config path
    $EDITOR "$(contrast config path)"
    """
    show.console.print_path(user_file())


@cli.command()
@click.option("--model", default="starter", metavar="RUN|FOLDER|NAME")
@click.option("--rounds", type=click.IntRange(min=1), default=3, help="Measurements of each.")
@click.option("--minutes", type=options.Number(min=0), default=10.0, help="Begin no measurement that takes longer.")
@options.as_json
@click.pass_obj
def bench(directory: Path, model: str, rounds: int, minutes: float, json: bool) -> None:
    """Compare the speed with a peer and with the machine's limit.

    contrast bench
    contrast bench --model bert-base-uncased --minutes 5 --json
    """
    with show.console.progress() as advance:
        measured = commands.bench.measure_speed(resolve(model, directory), rounds, minutes, advance)
        _print(show.answers.benchmarks(measured, json))


@cli.command()
@options.as_json
@click.pass_obj
def doctor(directory: Path, json: bool) -> None:
    """Show versions, devices, folders and optional packages.

    contrast doctor
    contrast doctor --json
    """
    _print(show.answers.facts(commands.doctor.examine(directory), json))


@cli.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]")
@click.pass_context
def help_(ctx: click.Context, words: Sequence[str]) -> None:
    """Show a help topic, or the options of a command.

    contrast help
    contrast help data
    contrast help runs prune
    """
    if words and words[0] in cli.commands and (words[1:] or words[0] not in commands.help.topics()):
        cli.main([*words, "--help"], prog_name="contrast", standalone_mode=False)
    else:
        _print(commands.help.answer(words, ctx.make_formatter().width, cli.commands, {"screens": _screens}))


def _screens() -> Sequence[tuple[str, str]]:
    from contrastcli.tui import manual  # textual is loaded only for the app and one topic

    return manual.screens()


def main() -> int:
    """Run the command line; returns the exit code. Errors become two lines on stderr."""
    try:
        options.prepare_process(sys.argv)
        with cli.make_context("contrast", sys.argv[1:]) as context:
            return cli.invoke(context) or 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except BaseException as error:
        return options.report(error, debug="--debug" in sys.argv[1:])


def _show_pictures(drawn: Sequence[Picture], on_terminal: bool, folder: Path | None) -> None:
    if on_terminal:
        _print(show.scores.drawings(drawn))
    for path in [path for picture in drawn for path in show.plots.save(picture, folder)] if folder else []:
        show.console.narrate(f"wrote {path}")


def _print(texts: str | Iterable[str]) -> None:
    for text in [texts] if isinstance(texts, str) else texts:
        if text:
            click.echo(show.console.fitting(text, sys.stdout.encoding or "utf-8"))
