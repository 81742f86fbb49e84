"""From a plan to a trainer: weights, tokens, heads and optimiser, fresh or as a checkpoint left them."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from contrastcli.errors import ContrastError, UsageError, Use, error_text
from contrastcli.files import writing_to
from contrastcli.model.adapters import add_lora, freeze, trained_share
from contrastcli.model.backbone import BertBackbone
from contrastcli.model.bert.graphs import Graphs
from contrastcli.model.contract import CLASSIFIER, Contract, adapted, read_contract
from contrastcli.model.devices import choose_precision, default_budget, is_out_of_memory
from contrastcli.model.encoder import SentenceEncoder
from contrastcli.model.folder import load_encoder, make_encoder
from contrastcli.model.locate import resolve
from contrastcli.model.pooling import Dense
from contrastcli.model.prompts import prompted_kinds
from contrastcli.objectives.functional import Result, Views, full_precision
from contrastcli.objectives.matryoshka import Loss, at_sizes
from contrastcli.objectives.rows import Rows
from contrastcli.runs.directory import Run
from contrastcli.runs.text import score
from contrastcli.settings.catalogue import built_in
from contrastcli.settings.objective import ObjectiveSettings, Spec
from contrastcli.settings.sections import Model
from contrastcli.training import checkpoint
from contrastcli.training.auxiliaries.auxiliary import AuxiliaryContext, import_named
from contrastcli.training.auxiliaries.template import TemplateBias
from contrastcli.training.batch import FRESH, set_seed
from contrastcli.training.checkpoint import Position
from contrastcli.training.dev import DevSet
from contrastcli.training.inputs import Inputs
from contrastcli.training.loop import Trainer
from contrastcli.training.optim import make_optimizer
from contrastcli.training.plan import Plan
from contrastcli.training.session import Session
from contrastcli.training.step import Stepper


def make_trainer(run: Run, plan: Plan, device: torch.device, session: Session) -> Trainer:
    """Load or restore everything that the run needs. Raises DataError and UsageError."""
    config = plan.config
    folder = checkpoint.to_resume(run)
    if session.world.is_main:
        with writing_to(run.path):
            checkpoint.settle(run, folder, config)
    set_seed(config.train.seed, 0, FRESH)
    encoder = load_encoder(folder, merge=False) if folder else load_untrained(config.model)
    freeze(encoder.to(device).backbone, config.model.freeze)
    max_length = min(config.model.max_length or encoder.max_length, encoder.max_length)
    precision = choose_precision(config.train.precision, device)
    own = read_contract(resolve(config.model.backbone).folder()).prompts
    prompts = encoder.contract.prompts_of(config.model.prompts, own, plan.examples.form, plan.corpus.views)
    inputs = Inputs.of(plan.corpus, encoder, prompts, max_length, partial(session.loading, "tokenising"))
    context = AuxiliaryContext(run, config, encoder, precision, inputs, session)
    stepper = _make_stepper(plan, context)
    for parameter in [*encoder.parameters(), *stepper.extras.parameters()]:
        # Aligned, unlike a mapped file's: rounding errors depend on that.
        parameter.data = parameter.data.clone()
    if device.type == "cuda" and session.world.size == 1 and isinstance(encoder.backbone, BertBackbone):
        stepper.cuda_graphs = Graphs(encoder)
    optimizer = make_optimizer(config.train, [*stepper.encoders.values()], stepper.extras)
    for text in _notes(plan, context, optimizer, is_new=folder is None):
        session.note(session.step, text)
    dev = _dev_set(plan, encoder, session, is_new=folder is None)
    position = checkpoint.restore(folder, stepper.extras, optimizer, dev) if folder else Position(to_evaluate=True)
    stepper.token_budget = _continue_under(position, stepper.token_budget, session)
    encoder.note = lambda text: session.note(position.step, text)
    return Trainer(run, plan, stepper, optimizer, position, inputs, dev, session)


def _dev_set(plan: Plan, encoder: SentenceEncoder, session: Session, *, is_new: bool) -> DevSet | None:
    """The dev set, on which a new run measures its backbone as published first, where the run changes its contract."""
    if plan.dev is None:
        return None
    dev = DevSet.of(plan.dev, encoder, plan.general)
    folder = resolve(plan.config.model.backbone).folder() if is_new else None
    if folder and (changed := contract_changes(read_contract(folder), plan.config.model)):
        loading = partial(session.loading, "encoding the dev set for the backbone as published")
        before = dev.measure_published(load_encoder(folder).to(encoder.device), loading)
        own = f"without this run's {' and '.join(changed)} the backbone has {before.title} {score(before.score)}"
        session.note(0, f"{own}, with which the verdict compares")
    return dev


def contract_changes(own: Contract, settings: Model) -> list[str]:
    """What of a published embedder's contract the settings change, so that its embeddings are others."""
    used, asked = adapted(own, settings)[0], ("attention", "pooling", "prompts", "suffix") if own.is_stated else ()
    head = ["head"] * (own.is_stated and settings.head == "keep")
    return [what for what in asked if getattr(own, what) != getattr(used, what)] + head


def _notes(plan: Plan, context: AuxiliaryContext, optimizer: Optimizer, *, is_new: bool) -> Iterator[str]:
    """What a run says of its models and of texts that are cut."""
    if is_new:
        yield from filter(None, (resolve(model).origin() for model in plan.models))
        others = (name for name in plan.models[1:] if read_contract(resolve(name).folder()).is_classifier)
        yield from map(CLASSIFIER.format, others)
        folder = resolve(plan.config.model.backbone).folder()
        yield from adapted(read_contract(folder), plan.config.model)[1]
        if share := trained_share(context.encoder.backbone):
            yield share
        if plan.examples.form == "scored" and (kinds := prompted_kinds(context.encoder.contract.prompt)):
            yield _of_scored(plan, kinds)
        if (rate := plan.config.train.head_lr) and all(group["peak_lr"] != rate for group in optimizer.param_groups):
            yield "without a head there is no effect of train.head_lr"
        if not plan.config.model.denoise and context.encoder.contract.pooling != "mask":
            yield "without mask pooling there is no effect of model.denoise"
    if (most := context.inputs.max_length) < plan.config.model.max_length:
        yield f"model.max_length is {most}, the most that this backbone reads"
    lengths = context.inputs.table.lengths
    if is_new and (full := int((lengths >= most).sum())):
        yield f"texts that fill model.max_length, {most:,} tokens, or are cut there: {full:,} of {len(lengths):,}"


def _of_scored(plan: Plan, kinds: str) -> str:
    """A note on scored pairs, which are as similar in either order: with which prompts they are read."""
    if plan.config.model.prompts != "auto":
        return f"dev pairs with scores are read without prompts for {kinds}, which these rows get"
    typed = "--prompts anchor=query,positive=document"
    return f"scored pairs are read without the model's prompts for {kinds}; with them: {typed}"


def _continue_under(position: Position, budget: int, session: Session) -> int:
    """The token budget to continue with, given that of the settings; a note says where it is not as it was."""
    was = position.token_budget
    memory_ran_out = 0 < was < position.first_budget == budget
    position.first_budget, position.token_budget = budget, was if memory_ran_out else budget
    if memory_ran_out:
        reason = "since memory ran out with more; --token-budget N sets another budget"
        session.note(position.step, f"at most {was:,} tokens at once, {reason}")
    elif was not in (0, budget):
        other = "other chunks, which draw other dropout"
        session.note(position.step, f"at most {budget:,} tokens at once instead of {was:,}: {other}")
    return position.token_budget


def load_untrained(model: Model) -> SentenceEncoder:
    """The backbone under its contract, as the settings change it. Raises DataError if it cannot be read."""
    encoder = make_encoder(adapted(read_contract(resolve(model.backbone).folder()), model)[0])
    if model.lora:
        add_lora(encoder.backbone, model, encoder.contract.backbone)
    freeze(encoder.backbone, model.freeze)
    if 0 < model.max_length <= (added := len(encoder.tokenizer.added)):
        what = f"model.max_length is {model.max_length}, and the tokenizer adds {added} tokens to every text"
        raise UsageError(what, Use("--max-length", "0", "for the backbone's own limit use"))
    if model.head == "keep":
        head = Dense(encoder.backbone.width, encoder.backbone.width)
        encoder.put_under(replace(encoder.contract, after=nn.Sequential(head, *encoder.after)))
    encoder.put_under(replace(encoder.contract, dims=tuple(sorted(model.weights(encoder.width)))[:-1]))
    return encoder


def _make_stepper(plan: Plan, context: AuxiliaryContext) -> Stepper:
    """The encoder, with fresh heads, projection and auxiliaries, which are dropped after training."""
    config, encoder = plan.config, context.encoder
    width, weights = encoder.backbone.width, config.model.weights(encoder.width)
    make_heads = import_named(config.spec.heads) if config.spec.heads else lambda width: nn.ModuleDict()
    with _own_code(config.spec):
        heads = nn.ModuleDict({str(k): make_heads(k) for k in weights}) if weights else make_heads(encoder.width)
    loss = make_loss(config.spec, config.objective)
    projection: nn.Module = Dense(width, width) if config.model.head == "train-only" else nn.Identity()
    extras = nn.ModuleDict({"heads": heads, "projection": projection})
    for auxiliary in plan.auxiliaries:
        auxiliary.load(context)
        if auxiliary.module is not None:
            extras[auxiliary.name] = auxiliary.module
    extras.to(encoder.device)
    for name, tensor in chain.from_iterable(auxiliary.state.items() for auxiliary in plan.auxiliaries):
        extras.register_buffer(name, tensor)
    is_denoised = config.model.denoise and encoder.contract.pooling == "mask"
    templates = [TemplateBias(encoder, context.inputs)] if is_denoised else []
    return Stepper(
        encoder=encoder,
        extras=extras,
        heads=heads,
        projection=nn.Sequential(projection, *encoder.after),
        auxiliaries=[*plan.auxiliaries, *templates],
        loss=at_sizes(loss, weights, encoder.contract.truncate) if weights else loss,
        precision=context.precision,
        run_seed=config.train.seed,
        token_budget=config.train.token_budget or default_budget(encoder.device, encoder.backbone.layers, width),
        world=context.session.world,
    )


def make_loss(spec: Spec, settings: ObjectiveSettings) -> Loss:
    """The loss with the settings that it takes bound, in full precision, and its parts detached.

    It raises UsageError where it fails, and at its first call where it depends on a weight that would not be trained.
    """
    function = import_named(spec.loss)
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    names = {*parameters, *(settings.__struct_fields__ if takes_any else ())}
    bound: Loss = partial(function, **{f: value for f, value in settings.arguments().items() if f in names})
    is_checked = False

    def loss(views: Views, rows: Rows, heads: nn.ModuleDict) -> Result:
        nonlocal is_checked
        with _own_code(spec), full_precision(views) as full:
            result = bound(full, rows, heads)
            if not isinstance(result, tuple):
                raise TypeError("it returns no parts: return loss, {}")
            value, parts = result
            _check_result(value, parts)
            if not is_checked:
                _check_graph(spec, value, (*views.values(), *heads.parameters()))
                is_checked = True
            return value, {name: part.detach() for name, part in parts.items()}

    return loss


def _check_result(value: object, parts: Mapping[str, object]) -> None:
    """Raises TypeError unless a loss and its parts are tensors of one number. Does not wait for the device."""
    for name, tensor in {"loss": value, **parts}.items():
        if not (isinstance(tensor, Tensor) and tensor.numel() == 1 and not tensor.is_complex()):
            raise TypeError(f"its {name} is not a tensor of one number")
    if not cast(Tensor, value).requires_grad:
        raise TypeError("its loss does not depend on the embeddings")


def _check_graph(spec: Spec, result: Tensor, inputs: Iterable[Tensor]) -> None:
    """Raises UsageError where the graph of a result reaches a leaf that is none of its inputs, and is not trained."""
    by_id = {id(tensor): tensor for tensor in inputs}
    seen = {tensor.grad_fn for tensor in by_id.values()}  # not the graph behind the inputs
    pending = [result.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of nodes that accumulate gradients
        if leaf is not None and id(leaf) not in by_id:
            what = f"the loss of '{spec.name}' depends on a tensor of shape {(*leaf.shape,)} that it would not train"
            raise UsageError(what, "make weights in the objective's heads(width)")
        pending += [previous for previous, _ in node.next_functions]


@contextmanager
def _own_code(spec: Spec) -> Iterator[None]:
    """Turn an error in the code of an objective of another package into a UsageError."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, ContrastError) or spec in built_in() or is_out_of_memory(error):
            raise
        what = f"the objective '{spec.name}' failed: {error_text(error)}"
        raise UsageError(what, "fix its package: see contrast help own-objective") from error
