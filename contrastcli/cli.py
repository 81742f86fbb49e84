"""The command line: stdout is the result, stderr is narration. A command imports what it alone needs."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from contrastcli import boundary, options
from contrastcli.boundary import __version__, narrate, print_path, print_text
from contrastcli.commands import watch as watching
from contrastcli.commands.job import Job, check_training, is_alone, resolve, run_and_config
from contrastcli.commands.sweep import run as run_sweep
from contrastcli.commands.track import track
from contrastcli.errors import UsageError
from contrastcli.files import user_file
from contrastcli.parsing.command import Group, SettingsCommand
from contrastcli.runs import directory as runs
from contrastcli.runs import process
from contrastcli.runs.directory import Run
from contrastcli.settings import presets
from contrastcli.show.format import as_json, size, table
from contrastcli.show.runs import checks, run_comparison, run_details, run_list
from contrastcli.show.settings import dry_run, preset_details, preset_list, settings


@click.group(cls=Group, context_settings=options.CONTEXT)
@click.version_option(__version__, prog_name="contrast")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--runs-dir", metavar="DIR", help="The runs directory. Default: CONTRAST_RUNS, else ./runs.")
@click.pass_context
def cli(ctx: click.Context, debug: bool, runs_dir: str | None) -> None:
    """Train sentence embeddings with contrastive objectives, and see what that does to the angles between sentences."""
    boundary.remember_typed(runs_dir)
    ctx.obj = runs.runs_dir(runs_dir)


@cli.command(params=[*options.OPENING])
@click.pass_obj
def tui(directory: Path, run: Run | None, no_mouse: bool) -> None:
    """Open the full-screen app, on a run if one is named."""
    if not boundary.on_a_terminal():
        hint = "contrast runs, contrast watch last, or contrast train --preset starter --no-ui"
        raise UsageError("the app needs a terminal", hint)
    if not boundary.is_utf8():
        raise UsageError("the app needs a terminal in UTF-8", "LC_ALL=C.UTF-8 contrast tui")
    _open_app(directory, run, mouse=not no_mouse)


def _open_app(directory: Path, run: Run | None, *, mouse: bool = True) -> None:
    from contrastcli.tui import app

    app.show(directory, run, mouse=mouse)


@cli.command(cls=SettingsCommand, params=[*options.TRAINING])
@click.pass_obj
def train(directory: Path, job: Job, no_ui: bool, detach: bool, after: Run | None) -> int:
    """Train a sentence encoder."""
    check_training(job, detach, after)
    if job.seeds is not None:
        return run_sweep(job, (), directory)
    run, config = run_and_config(job, directory)
    with process.interruptible():
        from contrastcli.commands import train as training  # loads torch
    if job.dry_run:
        print_text(dry_run(training.preview(config, run), config, job.json))
        return 0
    # The app starts one process, too.
    in_app = not (no_ui or detach or job.json) and is_alone() and boundary.on_a_terminal() and boundary.is_utf8()
    show = partial(_open_app, directory) if in_app else None
    shared = job.resume_or_start is not None
    return training.start(config, run, shared=shared, after=after, json=job.json, detach=detach, show=show)


@cli.command(cls=SettingsCommand, params=[*options.SWEEPING])
@click.pass_obj
def sweep(directory: Path, job: Job, axes: Sequence[str], worker: bool, workers: int) -> int:
    """Train a grid of settings, with several seeds."""
    return run_sweep(job, axes, directory, worker, workers)


@cli.group("runs")
def runs_group() -> None:
    """List, show and remove runs."""


@runs_group.command("list", params=[options.HOST, options.JSON])
@click.pass_obj
def list_(directory: Path, json: bool) -> None:
    """List all runs, the newest first."""
    print_text(run_list(runs.list_runs(directory), directory, json))


@runs_group.command("show", params=[options.ONE_RUN, options.JSON])
def show_run(run: Run, json: bool) -> None:
    """Show the status, scores, checkpoints and settings of a run."""
    print_text(run_details(run, json))


@runs_group.command(params=[options.ONE_RUN])
def path(run: Run) -> None:
    """Print the directory of a run."""
    print_path(run.path)


@runs_group.command(params=[*options.DELETING])
def rm(chosen: Sequence[Run], yes: bool) -> None:
    """Delete runs."""
    for run in {os.path.abspath(run.path): run for run in chosen}.values():
        runs.require_ended(run)
        if yes or click.confirm(boundary.printable(f"Delete {run.path}?"), err=True):
            runs.remove(run)
            narrate(f"deleted {run.path}")


@runs_group.command(params=[options.SOME_RUNS])
@click.pass_obj
def prune(directory: Path, chosen: Sequence[Run]) -> None:
    """Delete from runs that have ended what only a resume needs.

    That is the optimiser's state. Without names all that finished or diverged are pruned, not those still to resume.
    """
    for run in chosen:
        runs.require_ended(run)
    freed = runs.prune(chosen or runs.list_runs(directory), resumable=bool(chosen))
    narrate(f"freed {size(sum(freed.values()))}: {', '.join(run.name for run in freed if freed[run]) or 'no run'}")


@runs_group.command(params=[options.ONE_RUN, options.JSON])
def verify(run: Run, json: bool) -> None:
    """Check every file of a run, which may be in training."""
    from contrastcli.commands.verify import raise_first_fault, verify

    made = verify(run)
    print_text(as_json(made) if json else checks(made))
    raise_first_fault(made)


@runs_group.command(params=[*options.NOTING])
def note(run: Run, text: str) -> None:
    """Write a note on a run; its words with # are tags."""
    was = f" (was: {before})" if (before := run.note()) else ""
    run.write_note(text)
    narrate((f"note on {run.name}: {text}" if text else f"no note on {run.name}") + was)


@runs_group.command(params=[*options.EXCLUDING])
def exclude(run: Run, anchor: str, negative: str, undo: bool) -> None:
    """Leave two texts out of each other's negatives in a run."""
    process.exclude(run, anchor, negative, undo)
    since = "once it is resumed" if run.status().ended else "from its next step on"
    narrate(f"{'' if undo else 'no '}negatives of each other in {run.name} {since}, where its data have both")


@runs_group.command(params=[options.ONE_RUN, options.TRACKER, options.FOLLOW])
def log(run: Run, to: str, follow: bool) -> None:
    """Give the numbers of a run to a tracker, as a new record."""
    track(run, to, follow)
    if follow:
        watching.report(run)


@cli.command(params=[options.HOST, options.ONE_RUN, options.JSON])
def watch(run: Run, json: bool) -> int:
    """Follow a run to its end, and exit with its exit code."""
    return watching.watch(run, json)


@cli.command(params=[options.ONE_RUN, options.WAIT])
def stop(run: Run, wait: float) -> None:
    """Ask a run to save and stop."""
    watching.stop(run, wait)


@cli.command(params=[*options.COMPARING])
@click.pass_obj
def compare(directory: Path, /, words: Sequence[str], plot: bool, json: bool, form: str, **request: Any) -> None:
    """Compare the settings and results of runs, sweeps and models.

    Runs that differ only in their seed are one method, with mean and standard deviation. Each two methods get Welch's
    test, three and more with Holm's correction.
    """
    from contrastcli.commands.compare import check, check_required, compare, draw
    from contrastcli.show.scores import show_pictures

    chosen, out = check(words, directory, **request), request.pop("out")
    compared = compare(chosen, **request)
    print_text(as_json(compared) if json else run_comparison(compared, form))
    if plot or out:
        show_pictures(draw(chosen), plot and not json, out)
    check_required(compared, request["require"])


@cli.command("eval", params=[*options.MEASURING])
@click.pass_obj
def eval_(directory: Path, /, models: Sequence[str], json: bool, form: str, **request: Any) -> None:
    """Evaluate runs, models or files of word vectors."""
    from contrastcli.commands.evaluate import check_measured, measure
    from contrastcli.show.scores import scores, show_pictures

    measured, drawn = measure(models, directory, **request)
    print_text(scores(measured, json, form))
    show_pictures(drawn, not json and form == "text", request["folder"])
    check_measured(measured)


@cli.command(params=[*options.ENCODING])
@click.pass_obj
def encode(directory: Path, /, source: str, output: Path, **how: Any) -> None:
    """Write a vector for each sentence of a file, in the same order."""
    from contrastcli.commands.encode import encode_file

    encode_file(source, output, runs_dir=directory, **how)


@cli.command(params=[*options.LOOKING])
@click.pass_obj
def data(directory: Path, /, json: bool, **how: Any) -> None:
    """Show what is unusual in training data, and leave it out."""
    from contrastcli.commands.data import inspect, report
    from contrastcli.show.answers import inspected

    seen = inspect(runs_dir=directory, **how)
    print_text(as_json(seen) if json else inspected(seen))
    report(seen, **{name: how[name] for name in ("columns", "labels", "dev", "drop", "keep")})


@cli.command(params=[*options.MINING])
@click.pass_obj
def mine(directory: Path, /, source: str, output: Path, json: bool, **how: Any) -> None:
    """Add hard negatives to pairs, for training on triplets.

    They are the texts nearest to an anchor that are not its positive, nor as close as that. Next to the output a file
    .mined says how it was made. Earlier ones are replaced.
    """
    from contrastcli.commands.mine import mine_file, report
    from contrastcli.show.answers import mined

    made = mine_file(source, output, directory, **how)
    print_text(as_json(made) if json else mined(made))
    report(made, output)


@cli.command(params=[*options.SUGGESTING])
@click.pass_obj
def suggest(directory: Path, /, **how: Any) -> None:
    """Suggest settings for data, each with a reason, and try them."""
    from contrastcli.commands.suggest import suggest

    print_text(suggest(directory=directory, **how))


@cli.command(params=[*options.QUERYING])
@click.pass_obj
def query(directory: Path, /, texts: Sequence[str], corpus: Path | None, **how: Any) -> None:
    """Show the cosine of two sentences, or the nearest in a file.

    A line is the cosine, the angle and the texts, or in a file the row or id and the text. With -, of TAB-separated
    pairs or, with --corpus, of sentences on stdin, each line answered as it comes.
    """
    from contrastcli.commands.query import answer

    print_text(answer(texts, corpus, directory, **how))


@cli.command(params=[*options.EXPORTING])
@click.pass_obj
def export(directory: Path, /, **how: Any) -> None:
    """Export a model to other software, checked in it."""
    from contrastcli.commands.export.push import export

    export(directory=directory, **how)


@cli.command(params=[*options.MERGING])
@click.pass_obj
def merge(directory: Path, /, json: bool, **how: Any) -> None:
    """Merge a model and runs that began from it: weights in between.

    They often keep what the model knew and what the runs have learned. Without --alpha, nothing is written where one of
    the models is the best itself.
    """
    from contrastcli.commands.merge import merge, report

    merged = merge(directory=directory, **how)
    print_text(as_json(merged) if json else report(merged))


@cli.group("presets")
def presets_group() -> None:
    """List and show the published settings that come with contrast."""


@presets_group.command("list", params=[options.JSON])
def list_presets(json: bool) -> None:
    """List all presets; those of sweeps come last."""
    print_text(preset_list(json))


@presets_group.command("show")
@click.argument("name", shell_complete=options.complete_preset)
def show_preset(name: str) -> None:
    """Show a preset as a file, with published results and memory."""
    print_text(preset_details(presets.find(name)))


@cli.group("papers")
def papers_group() -> None:
    """Make the tables and figures of three papers again."""


@papers_group.command("list", params=[options.JSON])
@click.pass_obj
def list_papers(directory: Path, json: bool) -> None:
    """List every table and figure, what it needs and what is made of it."""
    from contrastcli.commands.papers import overview
    from contrastcli.show.papers import listing

    print_text(listing(overview(directory), json))


@papers_group.command("show", params=[*options.ITEM])
@click.pass_obj
def show_item(directory: Path, /, **words: Any) -> None:
    """Show the numbers of an item and what it takes, or list a paper."""
    from contrastcli.commands.papers import find_trials, item_and_request, overview
    from contrastcli.show.papers import listing, plan

    if not words["key"]:
        return print_text(listing(overview(directory, words["paper"].lower()), False))
    item, request = item_and_request(directory, **words)
    print_text(plan(item, request, find_trials(item, request, directory), with_numbers=True))


@papers_group.command("run", params=[*options.MAKING])
@click.pass_obj
def run_item(directory: Path, /, dry_run: bool, detach: bool, **words: Any) -> int:
    """Train and measure what a table or figure needs and is not there."""
    from contrastcli.commands import papers
    from contrastcli.show.papers import plan

    item, request = papers.item_and_request(directory, **words)
    papers.check(item, request)
    if dry_run:
        print_text(plan(item, request, papers.find_trials(item, request, directory)))
        return 0
    return (papers.detach if detach else papers.run)(item, request, directory)


@papers_group.command("table", params=[*options.ITEM, options.TABLE_FORMAT])
@click.pass_obj
def table_item(directory: Path, /, form: Any, **words: Any) -> None:
    """Print a table, ours next to the paper's."""
    from contrastcli.commands.papers import find_table, item_and_request
    from contrastcli.show.papers import numbers

    item, request = item_and_request(directory, **words)
    print_text(numbers(item, request, find_table(item, request, directory), form))


@papers_group.command("figure", params=[*options.ITEM, options.PICTURES])
@click.pass_obj
def figure_item(directory: Path, /, out: Path | None, **words: Any) -> None:
    """Draw a figure from what was trained for it."""
    from contrastcli.commands.papers import figure, item_and_request
    from contrastcli.show.scores import show_pictures

    item, request = item_and_request(directory, **words)
    show_pictures(figure(item, request, directory), out is None, out)


@cli.group("config")
def config_group() -> None:
    """Show the settings that a run would use, and their sources."""


@config_group.command("show", cls=SettingsCommand, params=[*options.SETTINGS])
def show_config(job: Job) -> None:
    """Show each setting with its value and the source of the value."""
    print_text(settings(resolve(job), job.json))


@config_group.command("path")
def config_path() -> None:
    """Print the path of your own settings file, which need not exist."""
    print_path(user_file())


@cli.command(params=[*options.BENCH])
@click.pass_obj
def bench(directory: Path, /, json: bool, **how: Any) -> None:
    """Compare the speed with a peer and with the machine's limit."""
    from contrastcli.commands.bench.speed import bench
    from contrastcli.show.answers import benchmarks

    print_text(benchmarks(bench(directory, **how), json))


@cli.command(params=[options.JSON])
@click.pass_obj
def doctor(directory: Path, json: bool) -> None:
    """Show versions, devices, folders and optional packages."""
    from contrastcli.commands.doctor import check, examine

    facts = examine(directory)
    print_text(as_json(facts) if json else table(("", ""), facts.items()))
    check(directory)


@cli.command()
@click.argument("shell", type=click.Choice(options.SHELLS))
def completion(shell: str) -> int:
    """Print what has a shell complete commands, options and runs."""
    return options.complete(cli, f"{shell}_source")


@cli.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND]")
@click.pass_context
def help_(ctx: click.Context, words: Sequence[str]) -> None:
    """Show a help topic, or the options of a command."""
    from contrastcli.commands.help import answer, topics

    if words and words[0] in cli.commands and (words[1:] or words[0] not in topics()):
        cli.main([*words, "--help"], prog_name="contrast", standalone_mode=False)
    else:
        print_text(answer(words, ctx.make_formatter().width, cli.commands, {"screens": _screens}))


def _screens() -> Sequence[tuple[str, str]]:
    from contrastcli.tui.app import screens

    return screens()
