"""From a plan to a trainer: weights, tokens, heads and optimiser, fresh or as a checkpoint left them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from contrastcli.data.tokens import tokenise
from contrastcli.errors import DataError
from contrastcli.files import writing_to
from contrastcli.model.devices import choose_precision, default_budget
from contrastcli.model.encoder import Dense, SentenceEncoder
from contrastcli.model.folder import load_encoder
from contrastcli.model.locate import resolve
from contrastcli.runs.events import Note, Progress
from contrastcli.settings.config import Config
from contrastcli.training import checkpoint
from contrastcli.training.auxiliary import Context, OnProgress, make_auxiliaries
from contrastcli.training.batch import Batcher
from contrastcli.training.checkpoint import Position
from contrastcli.training.dev import DevSet
from contrastcli.training.distributed import World
from contrastcli.training.loop import Emit, Trainer
from contrastcli.training.objective import make_heads, make_loss
from contrastcli.training.optim import make_optimizer
from contrastcli.training.plan import Plan
from contrastcli.training.seeds import FRESH, set_seed
from contrastcli.training.step import Stepper


def make_trainer(
    run: Path, plan: Plan, device: torch.device, emit: Emit, should_stop: Callable[[], bool], world: World
) -> Trainer:
    """Load or restore everything that the run needs. Raises DataError and UsageError."""
    config = plan.config
    folder = _last_checkpoint(run, world)
    set_seed(config.train.seed, 0, FRESH)
    encoder = _encoder(config, folder).to(device)
    precision = choose_precision(config.train.precision, device)
    context = Context(config, encoder, precision, plan.corpus.texts, partial(_progress, emit))
    stepper = _stepper(context, world)
    optimizer = make_optimizer(config.train, stepper.encoders.values(), stepper.extras)
    return Trainer(
        run=run,
        plan=plan,
        stepper=stepper,
        optimizer=optimizer,
        position=checkpoint.restore(folder, stepper.extras, optimizer) if folder else Position(),
        batcher=_batcher(plan, context, stepper, emit),
        dev=DevSet.of(plan.dev, encoder) if plan.dev else None,
        emit=emit,
        should_stop=should_stop,
    )


def _last_checkpoint(run: Path, world: World) -> Path | None:
    """The checkpoint to continue from; unfinished ones of a killed process are removed."""
    last = checkpoint.pointers(run).get("last")
    folder = run / "checkpoints" / last if last else None
    if folder and not folder.is_dir():
        raise DataError(f"the checkpoint {folder} is missing", f"restore it: {run / 'checkpoints.json'} names it")
    if world.is_main:
        with writing_to(run):
            checkpoint.prune(run)
    return folder


def _encoder(config: Config, checkpoint_folder: Path | None) -> SentenceEncoder:
    """The encoder of the checkpoint, else the backbone with the pooling and head that the settings ask for."""
    if checkpoint_folder:
        return load_encoder(checkpoint_folder)
    encoder = load_encoder(resolve(config.model.backbone).folder(), config.model.pooling)
    encoder.dense, encoder.normalize, encoder.prompt = None, False, ""
    encoder.max_length = encoder.backbone.max_length
    if config.model.head == "keep":
        encoder.dense = Dense(encoder.backbone.width, encoder.backbone.width)
    return encoder


def _stepper(context: Context, world: World) -> Stepper:
    """The encoder, and what stands next to it: fresh, and dropped after training."""
    config, encoder = context.config, context.encoder
    width = encoder.backbone.width
    extras = nn.ModuleDict({"heads": make_heads(config.spec, encoder.width)})
    extras["projection"] = Dense(width, width) if config.model.head == "train-only" else nn.Identity()
    auxiliaries = make_auxiliaries(config.objective)
    for auxiliary in auxiliaries:
        auxiliary.load(context)
        if auxiliary.module is not None:
            extras[auxiliary.name] = auxiliary.module
    return Stepper(
        encoder=encoder,
        extras=extras.to(encoder.device),
        auxiliaries=auxiliaries,
        loss=make_loss(config.spec, config.objective),
        precision=context.precision,
        run_seed=config.train.seed,
        token_budget=config.train.token_budget or default_budget(encoder.device),
        world=world,
    )


def _batcher(plan: Plan, context: Context, stepper: Stepper, emit: Emit) -> Batcher:
    """The corpus as tokens, and the views that auxiliaries add."""
    if context.max_length < plan.config.model.max_length:
        text = f"model.max_length is {context.max_length}, the most that this backbone reads"
        emit(Note(step=0, text=text))
    progress = context.progress("tokenising")
    table = tokenise(plan.corpus.texts, context.encoder.tokenizer, context.max_length, progress)
    return Batcher(plan.corpus, table, plan.config.data.mask_duplicates, [one.extend for one in stepper.auxiliaries])


def _progress(emit: Emit, what: str) -> OnProgress:
    return lambda done, total: emit(Progress(step=0, what=what, done=done, total=total))
