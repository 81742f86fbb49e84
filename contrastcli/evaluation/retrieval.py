"""Retrieval: the sets of NanoBEIR, and any set in the layout of BEIR.

A set NAME is a folder as `data.folders` reads it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from contrastcli.data import folders
from contrastcli.data.hub import PREFIX
from contrastcli.data.relevance import Retrieval
from contrastcli.data.sources import open_frame
from contrastcli.errors import DataError, nearest
from contrastcli.evaluation import ranking
from contrastcli.evaluation.procedure import Options, Procedure, SuiteContext, TaskScores, by_kind

_NAMES = (
    "ClimateFEVER DBPedia FEVER FiQA2018 HotpotQA MSMARCO NFCorpus NQ QuoraRetrieval SCIDOCS ArguAna SciFact Touche2020"
)
NANO = tuple(f"Nano{name}" for name in _NAMES.split())
"""The sets of NanoBEIR, 50 queries each (zeta-alpha-ai on the hub)."""

_OWNER = f"{PREFIX}zeta-alpha-ai/"
_PROTOCOL = (
    "all documents by the cosine, pooling: {pooling}, titles before texts; nDCG with the grades as gains and MAP over "
    "the whole ranking, as trec_eval; of equal cosines the relevant document comes last; a document with the id of the "
    "query is left out; all × 100, means over the queries that are judged"
)


def _find(tasks: Sequence[str], options: Options) -> Mapping[str, Callable[[], Retrieval]]:
    """Of the tasks that are named, or of all: the sets of --data-dir or its folder `retrieval`, else of NanoBEIR."""
    if (folder := options.data_dir) is None:
        return {name: partial(_read_hub, name) for name in tasks or NANO}
    places = [folder, folder / "retrieval"]
    sets = {path.name: path for place in places for path in sorted(place.glob("*")) if folders.holds(path, ["corpus"])}
    if folders.holds(places[0]) or not sets:
        sets = {places[0].resolve().name: places[0]}
    return {name: partial(folders.read_retrieval, sets.get(name, places[0] / name)) for name in tasks or sets}


def _read_hub(name: str) -> Retrieval:
    """A set of the hub. Raises DataError where it cannot be reached or has no such set."""
    if name not in NANO and not name.startswith(PREFIX):
        raise DataError(f"NanoBEIR has no set '{name}'", nearest(name, NANO))
    repo = name if name.startswith(PREFIX) else _OWNER + name
    return folders.retrieval_of(name, *(open_frame(f"{repo}?config={part}", "train") for part in folders.PARTS))


def _score(context: SuiteContext, task: str, data: Retrieval) -> TaskScores:
    scores = ranking.means(data, *map(context.vectors, data.columns, data.kinds))
    context.options.on_progress(f"retrieval {task}", 1, 1)
    return {**scores, "fingerprint": data.fingerprint, "note": ", ".join(data.notes), "partial": False}


def _protocol(context: SuiteContext, scores: Mapping[str, TaskScores]) -> str:
    notes = (f"; {task}: {entry['note']}" for task, entry in scores.items() if entry.get("note"))
    return _PROTOCOL.format(pooling=context.subject.pooling) + "".join(notes)


PROCEDURE = Procedure(_find, _score, _protocol, by_kind)
