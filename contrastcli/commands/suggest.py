"""`contrast suggest`: settings that suit some data and a backbone, each with its reason, and a trial of them."""

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import psutil
import torch
from msgspec import structs

from contrastcli.boundary import narrate_all, to_copy
from contrastcli.commands.train import read_lengths, train_briefly
from contrastcli.data import folders
from contrastcli.data.batching import Corpus
from contrastcli.data.convert import adapt, convert
from contrastcli.data.examples import Examples
from contrastcli.data.forms import LABELS
from contrastcli.data.sources import load_examples, open_dev
from contrastcli.errors import (
    ContrastError,
    DataError,
    DivergedError,
    InterruptedEarly,
    Preempted,
    UsageError,
    Use,
)
from contrastcli.model.adapters import base_folder
from contrastcli.model.backbone import read_config
from contrastcli.model.contract import read_contract
from contrastcli.model.devices import choose_device
from contrastcli.model.locate import ModelRef, cached_names, resolve
from contrastcli.model.weights import count_parameters
from contrastcli.runs.event import Event
from contrastcli.runs.events import Progress
from contrastcli.runs.measured import Step
from contrastcli.runs.results import Suggested, Trial
from contrastcli.settings import config as configs
from contrastcli.settings import presets, suggestions
from contrastcli.settings.config import Config, Layer
from contrastcli.settings.objective import Form
from contrastcli.settings.presets import Preset
from contrastcli.settings.sections import Blank, Train
from contrastcli.settings.suggestions import Facts
from contrastcli.show import console
from contrastcli.show.format import as_json
from contrastcli.show.settings import suggested_settings, trial_line
from contrastcli.training.plan import Plan, make_plan

STEPS, WARM_UP, MOST_SECONDS = 20, 5, 120.0
"""Steps to try, those of them that warm up, and seconds after which fewer are enough."""
_NEUTRAL = LABELS.index("neutral")


def suggest(
    source: str,
    directory: Path,
    *,
    backbone: str | None,
    columns: str,
    labels: str,
    blank: Blank,
    no_trial: bool,
    json: bool,
) -> Iterator[str]:
    """Settings with their reasons, then the trial, then the command, as they come. Raises DataError and UsageError."""
    own = configs.resolve(presets.stack(Preset()))
    data = structs.replace(own.data, train=source, columns=columns, labels=labels, blank=blank)
    examples = load_examples(data, get_args(Form), ())
    narrate_all(examples.notes)
    model, is_chosen = _backbone(backbone, own, directory)
    facts = _facts(examples, own.train, model, is_chosen)
    settings = suggestions.suggest(facts)
    named = {f"data.{name}": getattr(data, name) for name in ("train", "columns", "labels", "blank")}
    values = named | {one.key: one.value for one in settings}
    config = configs.resolve([*presets.stack(Preset()), Layer.of(values, "contrast suggest")])
    made = Suggested(source, settings, to_copy(shlex.join(["contrast", "train", *presets.words(config)])))
    if not json:
        yield suggested_settings(made.settings)
    if not no_trial:
        made = structs.replace(made, trial=_try(config))
    if json:
        yield as_json(made)
        return
    if made.trial:
        yield f"\n{trial_line(made.trial)}"
    yield f"\n{made.command}"


def _backbone(word: str | None, own: Config, runs_dir: Path) -> tuple[ModelRef, bool]:
    """The model to start from, and whether the user has named it. Raises UsageError where there is none."""
    if word or own.sources["model.backbone"] != "default":
        return resolve(word or own.model.backbone, runs_dir), True
    known = {name: resolve(name).local_folder() for name in (*cached_names(), own.model.backbone)}
    embedders = [name for name, folder in known.items() if folder and (folder / "modules.json").is_file()]
    if not (embedders or known[own.model.backbone]):
        download = Use("--backbone", "sentence-transformers/all-MiniLM-L6-v2", "download one:")
        raise UsageError("no model to start from is on this machine", [download, Use("--backbone", "starter", "use")])
    return resolve([*embedders, own.model.backbone][0]), False


def _facts(examples: Examples, train: Train, model: ModelRef, is_chosen: bool) -> Facts:
    """What the rules go by. Raises DataError."""
    contract = read_contract(model.folder())
    backbone, device = base_folder(contract.backbone), choose_device(train.device)
    by_form = _by_form(examples)
    corpus = Corpus.of(by_form[examples.form])
    prompts = contract.prompts_of("auto", contract.prompts, examples.form, corpus.views)
    shape = {} if contract.is_static else read_config(backbone)
    lengths = read_lengths(corpus, prompts, contract, shape)
    return Facts(
        form=examples.form,
        counts={form: len(rows) for form, rows in by_form.items()},
        anchors={form: len(rows.views["anchor"].distinct()[0]) for form, rows in by_form.items()},
        **structs.asdict(lengths),
        backbone=model.name,
        is_chosen=is_chosen,
        is_embedder=contract.is_stated,
        parameters=count_parameters(backbone),
        on_gpu=device.type == "cuda",
        memory=torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else psutil.virtual_memory().total,
        has_stsb=examples.form == "sentences" and _has_stsb(),
        max_steps=train.max_steps,
        own_dev=examples.source if "validation" in folders.judged_splits(examples.source) else "",
        has_logits=examples.has_logits,
    )


def _by_form(examples: Examples) -> dict[Form, Examples]:
    """The rows as they can be trained on: of labelled pairs those that are not neutral, and as pairs and triplets."""
    if examples.labels is None:
        return {examples.form: examples}
    labelled = examples.take(np.not_equal(examples.labels, _NEUTRAL))
    pairs, triplets = adapt(examples, ("pairs",), ()), convert(examples, "triplets")
    return {"labelled": labelled, "pairs": pairs, "triplets": triplets}


def _has_stsb() -> bool:
    try:
        open_dev("stsb")
    except DataError:
        return False
    return True


class _Enough(Exception):
    """The trial has shown what it can."""


def _try(config: Config) -> Trial:
    """Train some steps without dev data, and tell what all of them take."""
    plan = make_plan(config)
    evaluations = 1 + -(-plan.steps // config.dev.every) if plan.dev else 0
    trial, steps, enough = Trial(plan.steps, evaluations), list[Step](), min(STEPS, plan.steps)
    config = config.with_values(
        {"dev.data": "none", "alerts.webhook": "", "track.to": "none", "train.log_every": WARM_UP}
    )

    def watch(event: Event) -> None:
        if isinstance(event, Progress):
            advance(event.what, event.done, event.total)
        if isinstance(event, Step):
            steps.append(event)
            advance("trying steps", event.step, enough)
            if event.step >= enough or event.time - steps[0].time > MOST_SECONDS:
                raise _Enough

    try:
        with console.progress() as advance, suppress(_Enough):
            train_briefly(replace(plan, config=config, dev=None, general=None), watch)
        return _measured(trial, plan, steps)
    except (KeyboardInterrupt, InterruptedEarly, Preempted):
        return structs.replace(trial, error="interrupted", hint="the settings do not depend on it")
    except ContrastError as error:
        hint = "lower --lr" if isinstance(error, DivergedError) else error.hint
        return structs.replace(trial, error=error.what, hint=hint)


def _measured(trial: Trial, plan: Plan, steps: list[Step]) -> Trial:
    """The time of the steps after the warm-up, and what all steps and evaluations take at that pace."""
    warm = [step for step in steps if step.step >= WARM_UP] or steps
    first, last = warm[0], warm[-1]
    memory = max(step.memory_mb or 0.0 for step in steps) / 1000
    trial = structs.replace(trial, tried=last.step, memory=round(memory, 2))
    if first is last:
        return trial
    seconds = (last.time - first.time) / (last.step - first.step)
    texts = sum(len(column) for data in (plan.dev, plan.general) if data for column in data.columns)
    evaluation = seconds * texts / plan.sentences_per_step / suggestions.TRAINED
    total = trial.steps * seconds + trial.evaluations * evaluation
    return structs.replace(trial, seconds=round(seconds, 4), total=round(total, 1))
