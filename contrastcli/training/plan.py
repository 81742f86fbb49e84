"""What a run will do, worked out from its settings and data before any weights are loaded."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contrastcli.data.batching import BatchOrder, Corpus, Indices, Mix
from contrastcli.data.dev_data import DevData, load_dev, load_general, resolve_dev
from contrastcli.data.examples import Examples
from contrastcli.data.findings import check_leaks
from contrastcli.data.forms import LABELS
from contrastcli.data.relevance import Retrieval
from contrastcli.data.sources import SPLIT, load_examples, read_sets
from contrastcli.errors import UsageError, Use
from contrastcli.settings import catalogue
from contrastcli.settings.config import Config
from contrastcli.settings.objective import Form, no_negatives
from contrastcli.settings.sections import Train, settings_of
from contrastcli.training.auxiliaries.auxiliary import Auxiliary, make_auxiliaries
from contrastcli.training.auxiliaries.exclusions import Exclusions
from contrastcli.training.auxiliaries.mining import MinedNegatives
from contrastcli.training.auxiliaries.probes import Probes
from contrastcli.training.auxiliaries.violations import Violations


@dataclass(frozen=True)
class Plan:
    """Data, order and length of a run. Texts are not tokenised yet, and the auxiliaries not loaded."""

    config: Config
    examples: Examples
    corpus: Corpus
    dev: DevData | None
    general: DevData | None
    order: BatchOrder
    steps: int
    auxiliaries: Sequence[Auxiliary]
    read: Examples
    """All rows, before any were held out as dev data or left out as leaks."""

    @property
    def sentences_per_step(self) -> int:
        """Texts through all encoders in a full batch, on average."""
        return round(self.order.batch_size * self.config.objective.texts_per_row(self.corpus.texts_per_row))

    @property
    def models(self) -> list[str]:
        """The models that the run begins with or learns from, by name."""
        return [self.config.model.backbone, *(name for auxiliary in self.auxiliaries for name in auxiliary.models)]

    @property
    def negatives_per_anchor(self) -> int:
        """Negatives that each anchor of a full batch is contrasted with, on average.

        Rows that share a text are none of each other, but for labelled and scored pairs, few of which are positive.
        """
        rows, corpus, objective = self.order.batch_size, self.corpus, self.config.objective
        hard = round(rows * corpus.negatives_per_row)
        all_positive = corpus.labels is None and corpus.scores is None
        if all_positive and self.config.data.mask_duplicates and not self.config.spec.grouped:
            rows = 1 + round((rows - 1) * (1 - corpus.duplicates))
        return self.config.spec.negatives(rows, hard) + objective.further_negatives(rows)

    def batches(self, start: int) -> Iterator[tuple[int, float, Indices]]:
        """Step number (from 1), epochs done after it, and row indices of each batch after `start` steps."""
        step, epoch = 0, 0
        while step < self.steps:
            batches = self.order.epoch(epoch)
            for number, rows in enumerate(batches[: self.steps - step], 1):
                if step + number > start:
                    yield step + number, epoch + number / len(batches), rows
            step += len(batches)
            epoch += 1


def make_plan(config: Config) -> Plan:
    """Read the data and lay out the run, whose settings name the dev data. Raises DataError and UsageError."""
    if not config.data.train:
        hint = (Use("--data", "FILE", "use"), Use("--preset", "starter"))
        raise UsageError("there is nothing to train on: data.train is not set", hint, key="data.train")
    # An error before the data are read, where the settings would be too long for their file.
    config.to_toml()
    auxiliaries = make_auxiliaries(config.objective)
    examples = load_examples(config.data, _forms(config), config.spec.labels)
    dev_settings, notes = resolve_dev(config.dev, examples)
    config, read = replace(config, dev=dev_settings), replace(examples, notes=examples.notes + notes)
    examples, dev = load_dev(config.dev, config.data, read)
    examples = check_leaks(examples, dev.texts, config.data.leaks) if dev else examples
    corpus = Corpus.of(examples, config.spec.copies)
    auxiliaries += _further_auxiliaries(config, corpus)
    order = _order(config, examples, corpus)
    steps = _count_steps(config.train, order)
    general = load_general(config.dev, config.data)
    plan = Plan(config, examples, corpus, dev, general, order, steps, auxiliaries, read)
    return replace(plan, examples=replace(examples, notes=(*examples.notes, *_notes(plan))))


def _order(config: Config, examples: Examples, corpus: Corpus) -> BatchOrder:
    """The batches. Raises UsageError for a batch larger than the rows, with what became of the others."""
    groups = corpus.views["anchor"] if config.spec.grouped else None
    try:
        return BatchOrder(len(corpus), config.train.batch_size, config.train.seed, groups, _mix(config, examples))
    except UsageError as error:
        raise UsageError("; ".join([error.what, *examples.notes]), error.remedies, key=error.key) from None


def _further_auxiliaries(config: Config, corpus: Corpus) -> Iterator[Auxiliary]:
    """Those that no objective declares."""
    if config.data.mine_every:
        yield MinedNegatives(corpus, config.data)
    if pairs := config.dev.probe_pairs:
        yield Probes(pairs)
    if config.spec.negatives is not no_negatives:
        # A sentence without a copy has no positive that others could be closer than.
        if "positive" in corpus.views:
            yield Violations(corpus)
        yield Exclusions(corpus, config.data.false_negatives)


_NEEDED: Mapping[str, tuple[Callable[[Plan], object], Sequence[str]]] = {
    "model.lora": (
        lambda plan: plan.config.model.lora,
        ("model.lora_alpha", "model.lora_targets", "model.lora_dropout"),
    ),
    "data.mine_every": (lambda plan: plan.config.data.mine_every, ("data.mine_ranks", "data.mine_below")),
    "several sets": (lambda plan: plan.examples.sets, ("data.mix", "data.mix_temperature")),
    "hard negatives": (lambda plan: plan.corpus.negatives_per_row, ("objective.hard_negative_weight",)),
    "a dev set": (lambda plan: plan.dev, ("dev.patience",)),
    "a split of the training data": (lambda plan: plan.config.dev.data.startswith(SPLIT), ("dev.split_seed",)),
    "dev data of queries": (lambda plan: isinstance(plan.dev, Retrieval), ("dev.corpus",)),
    "dev.general": (lambda plan: plan.general, ("dev.keep_general",)),
    "negatives": (lambda plan: plan.config.spec.negatives is not no_negatives, ("data.false_negatives",)),
}
"""What some settings have no effect without, by its name, and whether a plan has it."""


def _notes(plan: Plan) -> Iterator[str]:
    """What may not be as it was meant."""
    settings = plan.config.train
    if mix := plan.order.mix:
        sets = zip(read_sets(plan.config.data.train), mix.drawn, mix.sizes, strict=True)
        drawn = ", ".join(f"{name} {count:,} of {size:,}" for (name, _), count, size in sets)
        yield f"rows that an epoch draws: {drawn}"
    if settings.max_steps > plan.steps:
        epochs = f"train.epochs is {settings.epochs:,}, which is {plan.steps:,} steps"
        yield f"train.max_steps is {settings.max_steps:,}, but {epochs}"
    if plan.config.dev.data == "starter" != plan.config.data.train:
        yield "the dev set is the starter's, in English; one of the data's own: --dev split:10%"
    yield from _without_effect(plan)
    if plan.examples.has_logits and (tau := getattr(plan.config.objective, "teacher_tau", 1)) < 1:
        yield f"the teacher's scores are logits, and objective.teacher_tau is {tau:g}, as for cosines: --teacher-tau 1"
    labels, classifies = plan.examples.labels, getattr(plan.config.objective, "classification", True)
    if labels and classifies and len({*labels}) == 1:
        yield f"every row has the label {LABELS[labels[0]]}: a classification of the pairs learns nothing from it"
    if plan.config.spec.negatives is not no_negatives and not plan.negatives_per_anchor:
        size = plan.order.batch_size
        shared = " on average, since most rows share a text: give others, or more at once"
        why = shared if size > 1 else ": give more"
        yield f"no anchor has a negative in a batch of {size}{why}, such as --batch-size {max(64, 4 * size)}"


def _without_effect(plan: Plan) -> Iterator[str]:
    values, known = plan.config.flat(), settings_of(plan.config.spec)
    for needed, (is_there, settings_with_it) in _NEEDED.items():
        typed = [key for key in settings_with_it if key in known and values[key] != known[key].default]
        if typed and not is_there(plan):
            yield f"without {needed} there is no effect of {', '.join(typed)}"


def _count_steps(settings: Train, order: BatchOrder) -> int:
    """The steps of all epochs, or train.max_steps where those are fewer."""
    most = settings.max_steps or math.inf
    if order.groups is None:
        return int(min(settings.epochs * len(order), most))
    steps = 0
    for number in range(settings.epochs):  # epochs of groups differ in length
        steps += len(order.epoch(number)) if steps < most else 0
    return int(min(steps, most))


def _forms(config: Config) -> tuple[Form, ...]:
    """The forms of rows that the run can use. Raises UsageError where it cannot use mined negatives."""
    if not config.data.mine_every:
        return config.spec.needs
    if "triplets" not in config.spec.needs:
        takers = ", ".join(spec.name for spec in catalogue.all_objectives() if "triplets" in spec.needs)
        what = f"data.mine_every is set, and the objective '{config.spec.name}' takes no mined negatives"
        raise UsageError(what, [f"choose one of {takers}", Use("--mine-every", "0")], key="data.mine_every")
    return "pairs", "triplets"


def _mix(config: Config, examples: Examples) -> Mix | None:
    """How the sets are mixed, if there are several. Raises UsageError where rows of one anchor stay together."""
    if not examples.sets:
        return None
    weights = [weight for _, weight in read_sets(config.data.train)]
    mix = Mix.of(examples.sets, weights, config.data.mix_temperature, config.data.mix == "one")
    if not config.spec.grouped:
        return mix
    if mix != Mix(examples.sets, examples.sets, one_set_per_batch=False):
        what = f"'{config.spec.name}' keeps the rows of an anchor in one batch, so that sets are joined as they are"
        raise UsageError(what, "leave out weights, data.mix and data.mix_temperature, or choose another objective")
    return None
