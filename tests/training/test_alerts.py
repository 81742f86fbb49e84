"""Alerts: which events raise them, that each is raised once, and what a webhook hears."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from msgspec.structs import replace

from contrastcli.runs import alerts
from contrastcli.runs.alerts import Rules
from contrastcli.runs.directory import Run
from contrastcli.runs.event import Event
from contrastcli.runs.events import Alert, Done, Verdict
from contrastcli.runs.measured import Step, System
from contrastcli.settings.sections import Alerts
from contrastcli.training import system
from support.command import SENTENCES, Contrast, train
from support.signs import evaluated


def raised(rules: Rules, *events: Event) -> list[tuple[str, int]]:
    return [(alert.rule, alert.step) for event in events for alert in rules(event)]


def test_a_dev_score_that_no_longer_improves_is_said_once() -> None:
    events = [evaluated(10, 0.5, best=True), *(evaluated(step, 0.45) for step in range(20, 80, 10))]
    assert raised(Rules(Alerts(evaluations=3)), *events) == [("stalled", 40)]
    assert raised(Rules(Alerts(evaluations=0)), *events) == []
    again = [*events[:4], evaluated(50, 0.6, best=True), *(evaluated(step, 0.55) for step in (60, 70, 80))]
    assert raised(Rules(Alerts(evaluations=4)), *again) == []


def test_dev_data_that_leave_nothing_to_gain_are_said_at_the_start() -> None:
    assert raised(Rules(Alerts()), evaluated(0, 1.0), evaluated(10, 1.0, best=True)) == [("ceiling", 0)]
    assert raised(Rules(Alerts()), evaluated(0, 0.99), evaluated(10, 1.0, best=True)) == []


@pytest.mark.parametrize("score", [0.35, -0.2, None])
def test_a_collapse_is_said_with_the_best_score(score: float | None) -> None:
    rules = Rules(Alerts())
    list(rules(evaluated(0, 0.9)))  # the untrained model's does not count
    list(rules(evaluated(10, 0.5, best=True)))
    [alert] = rules(evaluated(20, score))
    assert alert.rule == "collapsed" and "its best is 50.00 at step 10" in alert.text
    assert raised(rules, evaluated(30, score)) == []


def test_embeddings_that_lose_nine_tenths_of_their_dimensions_are_said_to_collapse() -> None:
    def ranked(step: int, rank: float | None) -> Event:
        return replace(evaluated(step, 0.5), rank=rank, width=128)

    before = [ranked(0, 40.0), ranked(10, 60.0), ranked(20, 6.1), ranked(25, None)]
    assert raised(Rules(Alerts()), *before) == []
    rules = Rules(Alerts(), before)
    [alert] = [alert for event in (ranked(30, 5.9), ranked(40, 2.0)) for alert in rules(event)]
    assert alert.step == 30 and alert.text.startswith("the embeddings collapse: ") and alert.text.endswith("60 → 5.9")


def test_a_disk_that_fills_and_a_gpu_that_waits_are_said_once() -> None:
    rules = Rules(Alerts(disk=2, gpu=30))
    assert raised(rules, System(step=1, disk_free=2.5, gpu=5)) == []
    assert raised(rules, System(step=2, disk_free=1.5, gpu=5), System(step=3, disk_free=1.5, gpu=5)) == [("disk", 2)]
    assert raised(rules, *(System(step=step, gpu=5) for step in range(4, 30))) == [("gpu", 12)]
    assert raised(Rules(Alerts(gpu=30)), *(System(step=step, gpu=step % 2 * 80) for step in range(30))) == []


def test_a_resumed_run_does_not_say_it_again() -> None:
    earlier = [evaluated(10, 0.5, best=True), evaluated(20, 0.1), Alert(step=20, rule="collapsed", text="", hint="")]
    assert raised(Rules(Alerts(), earlier), evaluated(30, 0.1)) == []
    assert raised(Rules(Alerts(), earlier[:1]), evaluated(30, 0.1)) == [("collapsed", 30)]


TRAIN = train(*SENTENCES, "--no-ui", "--name", "one")


class Hook(BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    heard: list[dict[str, Any]]

    def do_POST(self) -> None:
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.heard = []
    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook"
        server.shutdown()


def test_a_webhook_hears_of_the_alerts_and_the_end(contrast: Contrast, hook: str) -> None:
    Path("contrast.toml").write_text(f'[alerts]\nwebhook = "{hook}"\ncollapse = 0.001\ndisk = 0\n')
    answer = contrast(*TRAIN, "--set", "train.lr=0.5", "--set", "dev.every=1", "--max-steps", "6")
    assert answer.code == 0, answer.err
    alerts = [event for event in Run(Path("runs/one")).events() if isinstance(event, Alert)]
    assert [alert.rule for alert in alerts] == ["collapsed"]
    assert [(heard["run"], heard["step"]) for heard in Hook.heard] == [("one", alerts[0].step), ("one", 6)]
    verdict = next(Run(Path("runs/one")).latest(Verdict))
    assert alerts[0].text in Hook.heard[0]["text"]
    assert Hook.heard[1]["text"] == f"contrast one, step 6: finished; {verdict.details(0)}"
    assert alerts[0].text in answer.err


@pytest.mark.usefixtures("launched")
def test_the_secret_of_a_webhook_is_in_no_output_and_in_files_of_the_user_alone(contrast: Contrast, hook: str) -> None:
    with_secret = ("--set", f"alerts.webhook={hook.replace('//', '//me:s3cret@')}?key=s3cret")
    host, _, _ = hook.rpartition(":")
    shown = (
        ("config", "show", *with_secret),
        (*TRAIN, *with_secret, "--name", "new", "--dry-run"),
        ("runs", "show", "one"),
    )
    assert contrast(*TRAIN, *with_secret).code == 0
    assert contrast(*TRAIN, "--name", "two").code == 0
    for words in (*shown, ("compare", "one", "two")):
        for form in ((), ("--json",)):
            answer = contrast(*words, *form)
            assert "s3cret" not in answer.out + answer.err, words
            assert words[0] == "compare" or f"{host}/…" in answer.out
    again = contrast("train", "--resume", "one", *with_secret, "--tau", "0.9")
    assert "in a new run: contrast train" in again.err and "s3cret" not in again.err
    words = train(*SENTENCES, *with_secret, "--name", "s", "--seeds", "2", "--max-steps", "1")
    assert contrast(*words).code == 0
    held = [path for path in Path("runs").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert sorted({path.name for path in held}) == ["config.toml", "s.sweep.toml"]
    assert {path.stat().st_mode & 0o777 for path in held} == {0o600}
    assert Path("runs/two/config.toml").stat().st_mode & 0o044


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        ("nonsense\r\n\r\n", ""),
        ("HTTP/1.1 500 Sorry\r\n\r\n", "HTTP Error 500: Sorry"),
        ("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", "HTTP Error 302: Found"),
        ("\n" * 100, ""),
        ("", ""),
    ],
)
def test_whatever_a_webhook_answers_is_noted(answer: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it never ends: a byte now and then is an answer to a socket. A redirect is not followed."""
    monkeypatch.setattr(alerts, "WEBHOOK_SECONDS", 0.5)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                with server.accept()[0] as connection:
                    connection.recv(1 << 16)
                    for part in [answer] if answer else ["HTTP/1.1 200 OK\r\n", *"X: slow" * 4]:
                        connection.sendall(part.encode())
                        time.sleep(0 if answer else 0.1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        start = time.monotonic()
        webhook = alerts.Webhook(url, "one")
        webhook.tell(Done(step=3, status="finished", code=0))
        notes = list(webhook.failures(alerts.WEBHOOK_SECONDS))
    assert time.monotonic() - start < 3
    assert len(notes) == 1 and "<" not in notes[0]
    assert notes[0].startswith("webhook failed: ") and notes[0].endswith(what)


def test_a_webhook_hears_of_the_best_score_of_a_run_that_fails(hook: str) -> None:
    webhook = alerts.Webhook(hook, "one")
    for event in (evaluated(10, 0.5, best=True), evaluated(20, 0.4), Done(step=21, status="failed", code=1)):
        webhook.tell(event)
    assert list(webhook.failures(5.0)) == []
    assert Hook.heard[0]["text"] == "contrast one, step 21: failed; best Spearman 50.00 at step 10"


def test_training_does_not_wait_for_a_webhook(contrast: Contrast, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes connections and says nothing. What becomes of a post is noted after its alert."""
    monkeypatch.setattr(alerts, "WEBHOOK_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        words = ("--set", f"alerts.webhook={url}", "--set", "alerts.disk=1e6", "--max-steps", "3")
        monkeypatch.setattr(system, "SAMPLE_SECONDS", 0)
        assert contrast(*TRAIN, *words, "--set", "train.log_every=1").code == 0
    events = list(Run(Path("runs/one")).events())
    first, *_, last = [event.time for event in events if isinstance(event, Step)]
    assert last - first < 1
    told = [event for event in events if isinstance(event, Alert | Done) or "webhook failed" in event.line()]
    assert [event.kind() for event in told] == ["alert", "note", "note", "done"]


def test_the_machine_is_sampled_every_few_seconds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sample = system.Sampler(torch.device("cpu"), tmp_path)
    assert sample(1) is None
    monkeypatch.setattr(system, "SAMPLE_SECONDS", 0)
    seen = sample(2)
    assert seen and seen.numbers().keys() == {"cpu", "memory", "disk_free"}
    assert seen.memory and 0.05 < seen.memory < 64 and "disk free" in seen.details(9)


def test_a_gpu_is_sampled_as_far_as_its_driver_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system, "SAMPLE_SECONDS", 0)
    monkeypatch.setattr(torch.cuda, "utilization", lambda device: 87)
    monkeypatch.setattr(torch.cuda, "device_memory_used", lambda device: 12_300_000_000)
    monkeypatch.setattr(torch.cuda, "temperature", Mock(side_effect=RuntimeError("not supported")))
    monkeypatch.setattr(torch.cuda, "power_draw", lambda device: 312_000)
    monkeypatch.setattr(torch.cuda, "clock_rate", lambda device: 1980)
    seen = system.Sampler(torch.device("cuda", 1), tmp_path)(3)
    assert seen and seen.gpu_temperature is None
    assert seen.line(9).startswith("system    step 3  GPU 87 %  GPU memory 12 GB  GPU power 312 W  GPU clock 1980 MHz")
