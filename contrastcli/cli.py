"""The command line: words into calls. What a command does is in the module that it calls.

stdout is the result, stderr is narration; an error is two lines on stderr. Heavy modules are imported by the command
that needs them, so that `contrast --help` is instant.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import click

from contrastcli import __version__, options
from contrastcli.commands.evaluate import Measuring, check_measured, measure
from contrastcli.errors import UsageError, nearest
from contrastcli.files import user_file
from contrastcli.runs import directory as runs
from contrastcli.settings import presets
from contrastcli.show import console, plots, results, settings
from contrastcli.show.format import size
from contrastcli.show.pictures import Picture
from contrastcli.show.runs import run_details, run_list

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=options.Group, context_settings=CONTEXT)
@click.version_option(__version__, prog_name="contrast")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--runs-dir", metavar="DIR", help="Where runs are; else CONTRAST_RUNS, else ./runs.")
@click.pass_context
def cli(ctx: click.Context, debug: bool, runs_dir: str | None) -> None:
    """Train sentence embeddings with contrastive objectives, and see what it does to the angles between sentences.

    \b
    contrast train --preset starter --no-ui
    contrast query "a dog runs" "a puppy sprints"
    """
    ctx.obj = runs.runs_dir(runs_dir)


@cli.command()
@click.argument("run", required=False)
@click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal.")
@click.pass_obj
def tui(directory: Path, run: str | None, no_mouse: bool) -> None:
    """The full-screen app; with a run, it opens on that.

    \b
    contrast tui
    contrast tui last
    """
    _show(directory, runs.find(run, directory) if run else None, mouse=not no_mouse)


def _show(directory: Path, run: runs.Run | None, *, mouse: bool = True) -> None:
    from contrastcli.tui import app

    app.show(directory, run, mouse=mouse)


@cli.command(cls=options.SettingsCommand)
@options.job
@click.option("--no-ui", is_flag=True, help="Plain progress in this terminal, not the app.")
@click.option("--detach", is_flag=True, help="Train in the background, in a session of its own.")
@click.pass_obj
def train(directory: Path, job: options.Job, no_ui: bool, detach: bool) -> None:
    """Train a sentence encoder.

    \b
    contrast train --preset starter --no-ui
    contrast train --preset simace-bert-base --data texts.txt --dry-run
    contrast train --resume last --max-steps 2000
    """
    from contrastcli.commands import train as start

    options.check_training(job, detach)
    if job.seeds is not None:
        return _sweep(directory, job, ())
    run = None if job.resume is None else runs.find(job.resume, directory)
    chosen = start.changed(run, job.typed) if run else start.with_model_paths(options.resolve(job), directory)
    if job.dry_run:
        return _print(settings.dry_run(start.preview(chosen), chosen, job.json))
    plain = no_ui or detach or job.json or not options.on_a_terminal()
    show = None if plain else partial(_show, directory)
    raise click.exceptions.Exit(start.start(chosen, run, directory, job.name, json=job.json, detach=detach, show=show))


@cli.command(cls=options.SettingsCommand)
@options.job
@click.option("--grid", "axes", multiple=True, metavar="KEY=A,B", help="A setting, and its values.")
@click.pass_obj
def sweep(directory: Path, job: options.Job, axes: Sequence[str]) -> None:
    """Train over a grid of settings, with several seeds.

    \b
    contrast sweep --preset simace-grid
    contrast sweep --preset starter --grid objective.tau=0.05,0.06 --seeds 5
    contrast sweep --resume last
    """
    _sweep(directory, job, axes)


def _sweep(directory: Path, job: options.Job, axes: Sequence[str]) -> None:
    from contrastcli.commands import sweep as sweeping
    from contrastcli.runs import sweeps as grid
    from contrastcli.show import comparison

    found = sweeping.with_model_paths(options.sweep(job, axes, directory), directory)
    if job.resume is None:
        grid.check_free(found, directory)
    sweeping.check(found, directory)
    if job.dry_run:
        return _print(comparison.cells(sweeping.results(found, directory), job.json))
    if job.resume is None:
        grid.save(found, directory)
    code = sweeping.start(found, directory)
    _print(comparison.sweep(sweeping.results(found, directory), job.json))
    raise click.exceptions.Exit(code)


@cli.group("runs")
def runs_group() -> None:
    """List, show and remove runs.

    \b
    contrast runs
    contrast runs show last --json
    contrast runs prune
    """


@runs_group.command("list")
@options.as_json
@click.pass_obj
def list_(directory: Path, json: bool) -> None:
    """All runs, the newest first.

    \b
    contrast runs list
    contrast runs list --json
    """
    _print(run_list(runs.list_runs(directory), directory, json))


@runs_group.command()
@click.argument("run", default="last")
@options.as_json
@click.pass_obj
def show(directory: Path, run: str, json: bool) -> None:
    """Status, scores, checkpoints and settings of a run.

    \b
    contrast runs show last
    contrast runs show simace --json
    """
    _print(run_details(runs.find(run, directory), json))


@runs_group.command()
@click.argument("run", default="last")
@click.pass_obj
def path(directory: Path, run: str) -> None:
    """The directory of a run.

    \b
    contrast runs path last
    tail -f "$(contrast runs path last)/events.jsonl"
    """
    click.echo(runs.find(run, directory).path)


@runs_group.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def rm(directory: Path, names: Sequence[str], yes: bool) -> None:
    """Delete runs.

    \b
    contrast runs rm 2026-11-20-1432-simace-bert-base-7f3a
    contrast runs rm last --yes
    """
    for run in [runs.find(name, directory) for name in names]:
        if yes or click.confirm(f"Delete {run.path}?", err=True):
            runs.remove(run)
            click.echo(f"deleted {run.path}", err=True)


@runs_group.command()
@click.argument("names", nargs=-1, metavar="[RUN...]")
@click.pass_obj
def prune(directory: Path, names: Sequence[str]) -> None:
    """Delete what only a resume needs from runs that have ended.

    That is the optimiser's state, most of a checkpoint. Of all runs, or of those named.

    \b
    contrast runs prune
    contrast runs prune last
    """
    chosen = [runs.find(name, directory) for name in names] or runs.list_runs(directory)
    click.echo(f"freed {size(runs.prune(chosen))}", err=True)


@cli.command()
@click.argument("run", default="last")
@options.as_json
@click.pass_obj
def watch(directory: Path, run: str, json: bool) -> None:
    """Follow a run and end with its exit code.

    \b
    contrast watch last
    contrast watch simace --json | jq .loss
    """
    from contrastcli.commands import train as start

    raise click.exceptions.Exit(start.watch(runs.find(run, directory), json))


@cli.command()
@click.argument("run", default="last")
@click.option(
    "--wait", type=click.FloatRange(min=0), default=60, show_default=True, help="Seconds to wait for its end."
)
@click.pass_obj
def stop(directory: Path, run: str, wait: float) -> None:
    """Ask a run to end its step, save and stop.

    \b
    contrast stop last
    contrast stop simace --wait 0
    """
    from contrastcli.runs import process

    found = runs.find(run, directory)
    process.request_stop(found)
    status = process.wait_for_end(found, wait)
    click.echo(f"{found.name}: {status.state} at step {status.step:,}", err=True)


@cli.command()
@click.argument("names", nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--bootstrap", is_flag=True, help="Also test two models on the same scored pairs.")
@click.option("--dev", metavar="DATA", help="Those pairs; else the ones that chose the checkpoints.")
@click.option("--plot", is_flag=True, help="Draw angles, alignment and uniformity over training.")
@click.option("--out", "folder", type=click.Path(path_type=Path), help="Write these pictures there as PNG and SVG.")
@options.as_json
@click.pass_obj
def compare(
    directory: Path, names: Sequence[str], bootstrap: bool, dev: str | None, plot: bool, folder: Path | None, json: bool
) -> None:
    """The settings that differ between runs, and what came of them.

    Runs that differ in their seed only are one method: mean and standard deviation, and for two methods Welch's test.

    \b
    contrast compare simcse simace
    contrast compare simcse simace --bootstrap --dev stsb
    contrast compare simcse simace --plot --out pictures
    """
    from contrastcli.commands import compare as comparing
    from contrastcli.show import comparison

    chosen = comparing.check([runs.find(name, directory) for name in names], bootstrap, dev)
    if folder:
        plots.check(folder)
    _print(comparison.comparison(comparing.compare(chosen, bootstrap, dev), json))
    if plot or folder:
        drawn = comparing.draw(chosen)
        if plot and not json:
            _print(results.drawings(drawn))
        _save(drawn, folder)


@cli.command("eval")
@click.argument("models", nargs=-1, metavar="[RUN|MODEL]...")
@options.measuring
@options.as_json
@click.pass_obj
def evaluate(directory: Path, asked: Measuring, models: Sequence[str], json: bool) -> None:
    """Measure runs, models or files of word vectors.

    \b
    contrast eval last --data-dir SentEval/data/downstream
    contrast eval bert-base-uncased --suite sts,transfer --pooling first-last
    contrast eval simcse simace --suite sts,geometry --out pictures
    """
    scores, drawn = measure(asked, models, directory)
    _print(results.scores(scores, json))
    if not json:
        _print(results.drawings(drawn))
    _save(drawn, asked.folder)
    check_measured(scores)


@cli.command()
@click.argument("source", metavar="FILE|-")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help=".npy, .safetensors or .parquet.")
@options.of_model
@click.option("--precision", type=click.Choice(["fp32", "bf16"]), default="fp32", show_default=True)
@click.pass_obj
def encode(directory: Path, source: str, output: Path, model: str | None, precision: Literal["fp32", "bf16"]) -> None:
    """Embed the sentences of a file, one vector each, in their order.

    \b
    contrast encode sentences.txt -o vectors.npy
    contrast encode questions.tsv -o vectors.parquet --model last --precision bf16
    contrast encode - -o vectors.safetensors < sentences.txt
    """
    from contrastcli.commands import encode as encoding
    from contrastcli.model.folder import load_model
    from contrastcli.model.locate import resolve

    encoding.check_output(output)
    ref = resolve(model, directory)
    texts = encoding.read_sentences(source)
    encoder = load_model(ref)
    with console.progress() as advance:
        encoding.encode_to(encoder, texts, output, precision, partial(advance, "encoding"))
    click.echo(f"wrote {output}: {len(texts):,} vectors of {encoder.width}", err=True)


@cli.command()
@click.argument("texts", nargs=-1, required=True, metavar="A B | TEXT | -")
@options.of_model
@click.option("--corpus", type=click.Path(path_type=Path), help="Find the nearest sentences of this file.")
@click.option("-k", "count", type=click.IntRange(min=1), default=5, show_default=True, help="How many of them.")
@options.as_json
@click.pass_obj
def query(
    directory: Path, texts: Sequence[str], model: str | None, corpus: Path | None, count: int, json: bool
) -> None:
    """Cosine and angle of two sentences, or the nearest in a corpus.

    With -, of TAB-separated pairs or, with --corpus, of sentences on stdin, each line answered as it comes.

    \b
    contrast query "a dog runs" "a puppy sprints"
    contrast query "how do I reset my password" --corpus questions.txt -k 10
    contrast query - --model last --json < pairs.tsv
    """
    options.check_question(texts, corpus)
    from contrastcli.commands.query import read_pairs, read_questions
    from contrastcli.model.folder import load_model
    from contrastcli.model.locate import resolve
    from contrastcli.model.search import Index, similarities
    from contrastcli.runs.results import Nearest

    ref = resolve(model, directory)
    encoder = load_model(ref)
    piped = texts == ("-",)
    if corpus is not None:
        with console.progress() as advance:
            index = Index(encoder, corpus, partial(advance, "encoding"))
        for questions in read_questions(options.stdin()) if piped else [texts]:
            nearest = [Nearest(text, index.nearest(text, count), ref.name) for text in questions]
            _print(results.neighbours(nearest, json))
    else:
        for pairs in read_pairs(options.stdin()) if piped else [[(texts[0], texts[1])]]:
            _print(results.similarities(similarities(encoder, pairs, ref.name), json))


@cli.command()
@click.argument("model", metavar="RUN|MODEL")
@click.argument("dest", type=click.Path(path_type=Path))
@click.option("--format", "kind", type=click.Choice(["sentence-transformers", "onnx"]), default="sentence-transformers")
@click.option("--overwrite", is_flag=True, help="Replace what is in DEST.")
@click.pass_obj
def export(
    directory: Path, model: str, dest: Path, kind: Literal["sentence-transformers", "onnx"], overwrite: bool
) -> None:
    """Write a folder that sentence-transformers loads, or ONNX.

    \b
    contrast export last ./my-encoder
    contrast export simace ./my-onnx --format onnx
    """
    from contrastcli.commands import export as exporting
    from contrastcli.model.locate import resolve

    click.echo(exporting.export_model(resolve(model, directory), dest, kind, overwrite=overwrite))
    if kind == "sentence-transformers":
        click.echo(f'next: contrast query "a dog runs" "a puppy sprints" --model {dest}', err=True)


@cli.group("presets")
def presets_group() -> None:
    """The published settings that come with contrast.

    \b
    contrast presets
    contrast presets show simace-bert-base
    """


@presets_group.command("list")
@options.as_json
def list_presets(json: bool) -> None:
    """All presets, those of sweeps last.

    \b
    contrast presets list
    contrast presets list --json
    """
    _print(settings.preset_list(json))


@presets_group.command("show")
@click.argument("name")
def show_preset(name: str) -> None:
    """A preset as a file to copy, with published results and memory.

    \b
    contrast presets show starter
    contrast presets show simace-bert-base > mine.toml
    """
    _print(settings.preset_details(presets.find(name)))


@cli.group("config")
def config_group() -> None:
    """What a run would use, and from where.

    \b
    contrast config show --preset starter
    contrast config path
    """


@config_group.command("show", cls=options.SettingsCommand)
@options.settings
@click.pass_obj
def show_config(directory: Path, job: options.Job) -> None:
    """Each setting with its value and where that came from.

    \b
    contrast config show --preset simace-bert-base --tau 0.07
    contrast config show --json
    """
    found = options.resolve(job)
    _print(settings.settings_json(found) if job.json else settings.settings(found))


@config_group.command("path")
def config_path() -> None:
    """Your own settings file, which need not exist.

    \b
    contrast config path
    $EDITOR "$(contrast config path)"
    """
    click.echo(user_file())


@cli.command()
@click.option("--model", default="starter", show_default=True, metavar="RUN|FOLDER|NAME")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Measurements of each.")
@options.as_json
@click.pass_obj
def bench(directory: Path, model: str, rounds: int, json: bool) -> None:
    """How fast this machine encodes and trains.

    Beside sentence-transformers where that is installed.

    \b
    contrast bench
    contrast bench --model bert-base-uncased --rounds 5 --json
    """
    from contrastcli.commands import bench as benching
    from contrastcli.model.locate import resolve

    with console.progress() as advance:
        found = benching.bench(resolve(model, directory), rounds, advance)
    _print(results.benchmarks(found, json))


@cli.command()
@options.as_json
@click.pass_obj
def doctor(directory: Path, json: bool) -> None:
    """What this machine offers: versions, device, folders and extras.

    \b
    contrast doctor
    contrast doctor --json
    """
    from contrastcli.commands.doctor import examine

    _print(results.facts(examine(directory), json))


@cli.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]")
@click.pass_context
def help_(ctx: click.Context, words: Sequence[str]) -> None:
    """Topics to read, and the options of commands.

    \b
    contrast help
    contrast help data
    contrast help runs prune
    """
    from contrastcli.commands import help as topics

    width = ctx.make_formatter().width
    if not words:
        _print(topics.overview(width))
    elif len(words) == 1 and words[0] in topics.topics():
        _print(topics.topic(words[0], width, {"screens": _screens}))
    elif words[0] in cli.commands:
        cli.main([*words, "--help"], prog_name="contrast", standalone_mode=False)
    else:
        raise UsageError(f"there is no help on '{words[0]}'", nearest(words[0], [*topics.topics(), *cli.commands]))


def _screens() -> Sequence[tuple[str, str]]:
    from contrastcli.tui import manual

    return manual.screens()


def main() -> int:
    """Run the command line; returns the exit code. Errors become two lines on stderr."""
    try:
        with cli.make_context("contrast", sys.argv[1:]) as context:
            cli.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except BaseException as error:
        return options.report(error, debug="--debug" in sys.argv[1:])


def _save(drawn: Sequence[Picture], folder: Path | None) -> None:
    written = [path for picture in drawn for path in plots.save(picture, folder)] if folder else []
    for path in written:
        click.echo(f"wrote {path}", err=True)


def _print(text: str) -> None:
    if text:
        click.echo(console.fitting(text, sys.stdout.encoding or "utf-8"))
