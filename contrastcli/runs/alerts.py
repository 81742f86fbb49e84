"""Alerts: rules over the events of a run, and the webhook they are sent to."""

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator
from statistics import fmean
from threading import Thread

from contrastcli.errors import error_text
from contrastcli.runs.event import Event
from contrastcli.runs.events import Alert, Done, Verdict
from contrastcli.runs.measured import Evaluated, System
from contrastcli.runs.text import score
from contrastcli.settings.sections import Alerts

_GPU_SAMPLES = 12
"""How many samples of the GPU an alert looks at: about a minute."""

NOTHING_TO_GAIN = 0.995
"""A dev score before training that leaves no room for a better one."""

WEBHOOK_SECONDS = 5.0
"""How long a webhook may take to answer."""

Broken = tuple[str, str, str]
"""A rule that is broken, what it saw, and what to do."""


class Rules:
    """Raises each alert once in the life of a `run`, `earlier` events included. `merge`, if any, mends forgetting."""

    def __init__(
        self, settings: Alerts, earlier: Iterable[Event] = (), merge: str = "contrast merge", run: str = "last"
    ) -> None:
        self._settings, self._merge = settings, merge
        self._again = f"stop it: contrast stop {run}, and start again with a lower --lr"
        self._best: Evaluated | None = None
        self._without_best, self._forgetful = 0, False
        self._rank = 0.0
        self._gpu: deque[float] = deque(maxlen=_GPU_SAMPLES)
        self._raised: set[str] = set()
        for event in earlier:
            list(self(event))

    def __call__(self, event: Event) -> Iterator[Alert]:
        """The alerts that an event raises."""
        broken: Iterable[Broken] = ()
        match event:
            case Alert():
                self._raised.add(event.rule)
            case Evaluated():
                broken = self._evaluated(event)
            case System():
                broken = self._sampled(event)
        for rule, text, hint in broken:
            if rule not in self._raised:
                self._raised.add(rule)
                yield Alert(step=event.step, rule=rule, text=text, hint=hint)

    def _evaluated(self, event: Evaluated) -> Iterator[Broken]:
        self._rank = max(self._rank, event.rank or 0.0)
        if event.rank is not None and event.rank < self._rank / 10:
            text = f"the embeddings collapse: their effective rank, of {event.width}, fell below a tenth of what it was"
            yield "rank", f"{text}: {self._rank:.0f} → {event.rank:.1f}", f"{self._again}, or a higher --tau"
        if not event.step:
            if (event.score or 0.0) > NOTHING_TO_GAIN:
                hint = "give harder ones with --dev FILE, or more texts to rank with --set dev.corpus=FILE"
                text = f"the dev data cannot show a gain: their score is {score(event.score)} before training"
                yield "ceiling", text, hint
            return
        if event.general and event.general.judgement == "worse":
            hint = f"{self._again}; or after it: {self._merge}" if self._merge else self._again
            yield "forgetting", f"the general score has fallen: {event.general}", hint
        yield from self._against_best(event)

    def _against_best(self, event: Evaluated) -> Iterator[Broken]:
        if event.best:
            self._best, self._without_best, self._forgetful = event, -1, False
        self._without_best += 1
        self._forgetful |= event.forgetful
        best, limits = self._best, self._settings
        known = f"its best is {score(best.score)} at step {best.step:,}" if best else "it has no best"
        if limits.evaluations and self._without_best >= limits.evaluations:
            kept = " that keeps dev.keep_general" if self._forgetful else ""
            yield "stalled", f"no better dev score{kept} in {self._without_best} evaluations: {known}", self._again
        if best is None or best.score is None:
            return
        fallen = event.score is None or 100 * event.score < 100 * best.score - limits.collapse
        if limits.collapse and fallen:
            now = "is undefined" if event.score is None else f"fell to {score(event.score)}"
            yield "collapsed", f"the dev score {now}: {known}", f"{self._again}, or a higher --tau"

    def _sampled(self, event: System) -> Iterator[Broken]:
        if event.disk_free is not None and event.disk_free < self._settings.disk:
            text = f"the disk of the run has {event.disk_free:.1f} GB left"
            yield "disk", text, "make room: contrast runs prune"
        if event.gpu is None:
            return
        self._gpu.append(event.gpu)
        if len(self._gpu) == _GPU_SAMPLES and (mean := fmean(self._gpu)) < self._settings.gpu:
            hint = "continue with a larger --token-budget, or start again with a larger --batch-size"
            yield "gpu", f"the GPU is in use for {mean:.0f} % of the time", hint


def notice(run: str, event: Event, settings: Alerts) -> str:
    """What a notification says of an event; empty for one that the settings leave out."""
    if isinstance(event, Alert | Done) and settings.ring in ("all", "alerts" if isinstance(event, Alert) else "end"):
        return _words(run, event)
    return ""


def _words(run: str, event: Alert | Done) -> str:
    words = f"{event.text}; {event.hint}" if isinstance(event, Alert) else f"{event.status} {event.message}".strip()
    return f"contrast {run}, step {event.step:,}: {words}"


class Webhook:
    """Tells a webhook, if there is one, of the alerts and the end of a run, while training goes on."""

    def __init__(self, url: str, run: str) -> None:
        self._url, self._run = url, run
        self._posts: list[tuple[Thread, list[str]]] = []
        self._result = ""

    def tell(self, event: Event) -> None:
        """Tell of an event, if it is an alert or the end, which is told with the verdict or else the best score."""
        if isinstance(event, Evaluated) and event.best:
            self._result = f"; best {event.title} {score(event.score)} at step {event.step:,}"
        if isinstance(event, Verdict):
            self._result = f"; {event.details(0)}"
        if not self._url or not isinstance(event, Alert | Done):
            return
        text = _words(self._run, event) + (self._result if isinstance(event, Done) else "")
        body = json.dumps({"text": text, "run": self._run, "step": event.step})
        problems, earlier = ["no answer in time"], [thread for thread, _ in self._posts]
        thread = Thread(target=_send, args=(self._url, body.encode(), problems, earlier), daemon=True)
        thread.start()
        self._posts.append((thread, problems))

    def failures(self, seconds: float = 0.0) -> Iterator[str]:
        """Why posts have failed, each told once; those that are under way are waited for so long and then given up."""
        until, posts, self._posts = time.monotonic() + seconds, self._posts, []
        for thread, problems in posts:
            # A trickle of bytes defeats the socket's own timeout.
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive() and not seconds:
                self._posts.append((thread, problems))
            else:
                yield from (f"webhook failed: {problem}" for problem in problems)


def _send(webhook: str, body: bytes, problems: list[str], earlier: list[Thread]) -> None:
    """Post to a webhook after earlier posts; leaves in `problems` why that failed, nothing if it did not."""
    for thread in earlier:
        thread.join()
    # These take a twentieth of a second, for which the app's first frame need not wait.
    import urllib.request
    from http.client import HTTPException

    try:
        request = urllib.request.Request(webhook, body, {"Content-Type": "application/json"})
        # A redirect would be followed by a request without the body.
        staying = urllib.request.HTTPRedirectHandler()
        staying.redirect_request = lambda *request: None  # type: ignore[method-assign]
        urllib.request.build_opener(staying).open(request, timeout=WEBHOOK_SECONDS).close()
        problems.clear()
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", None)
        problems[:] = [error_text(reason if isinstance(reason, OSError) else error)]
