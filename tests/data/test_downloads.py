"""Downloads from a hub on this machine: what is asked for, what is shown, and two lines for each failure."""

import errno
import gzip
import random
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
from huggingface_hub.utils.tqdm import tqdm as hub_tqdm
from pyarrow import parquet
from safetensors.numpy import save
from tqdm.std import tqdm

from contrastcli.data.downloads import Repo as Source
from contrastcli.data.downloads import counted, fetch, shown_by
from contrastcli.data.formats import read_file
from contrastcli.data.tokens import transformers
from contrastcli.errors import DataError, RunError
from contrastcli.model.locate import resolve
from contrastcli.runs.events import Progress
from support.command import Contrast, failed, refused, train
from support.disks import FULL, failing_disk
from support.hub import Fault, Hub, Repo, files_of, publish
from support.tables import load
from support.tiny import Tiny, told
from support.tiny import train as train_run

CSV = "hf:princeton-nlp/datasets-for-simcse/nli_for_simcse.csv"
STSB = "hf:sentence-transformers/stsb"
AGAIN = "run the same command again"


@pytest.fixture
def hub(served_hub: Hub, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Hub:
    publish(served_hub, tiny)
    monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1_000)
    return served_hub


def train_from(name: str) -> tuple[str, ...]:
    return train("--data", "tiny/labelled.jsonl", "--no-ui", "--backbone", name)


def read(name: str) -> object:
    """A model, or training data whose name begins with hf:."""
    return load(name, "simcse") if name.startswith("hf:") else resolve(name).folder()


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("closed/model", "the model 'closed/model' needs its owner's consent", "/closed/model, then: hf"),
        ("hf:closed/data/nli_for_simcse.csv", "needs its owner's consent", "/closed/data, then: hf"),
        ("hf:closed/data", "'closed/data' is a gated dataset", "and if that asks for consent"),
        ("bert-base-uncased@v9", "no revision 'v9' of 'bert-base-uncased'", "leave out @v9, or choose one"),
        (CSV.replace("/nli", "@v9/nli"), "no revision 'v9' of 'princeton-nlp/data", "leave out @v9"),
        (f"{STSB}@v9", "no revision 'v9' of 'sentence-transformers/stsb'", "leave out @v9"),
        ("bert-bas-uncased", "is neither a folder nor a model on the hub", "check the spelling"),
        (CSV.replace("simcse/", "simce/"), "is not on the hub", "check the spelling"),
        (CSV.replace("nli_for", "nli_of"), "there is no such file", "/tree/main"),
        (STSB.replace("stsb", "stbs"), "is not on the hub", "check the spelling"),
        (f"{STSB}?split=foo", f"{STSB}?split=foo: Unknown split", "check its name, config and split on "),
        (f"{STSB}?config=foo", f"{STSB}?config=foo: ", "check its name, config and split on "),
    ],
)
def test_what_the_hub_does_not_give_is_named_with_its_page(hub: Hub, name: str, what: str, hint: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name)
    assert what in caught.value.what and hint in caught.value.hint
    assert "\n" not in caught.value.what


@pytest.mark.parametrize(
    ("status", "headers", "what", "hint"),
    [
        (429, {"Retry-After": "120"}, "429 (Too Many Requests)", f"{AGAIN} in 120 s, or log in for a"),
        (429, {"RateLimit": '"api";r=0;t=55'}, "429 (Too Many Requests)", f"{AGAIN} in 55 s"),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, "429 (Too Many Requests)", f"{AGAIN} later"),
        (503, {}, "503 (Service Unavailable)", f"wait a few minutes, then {AGAIN}"),
        (401, {}, "401 (Unauthorized)", "hf auth login"),
    ],
)
def test_a_hub_that_refuses_says_when_to_come_again(
    hub: Hub, status: int, headers: dict[str, str], what: str, hint: str
) -> None:
    hub.faults.append(Fault("/api/", status, headers))
    for name, title in (("bert-base-uncased", "the model 'bert-base-uncased'"), (CSV, CSV), (STSB, STSB)):
        with pytest.raises(DataError) as caught:
            read(name)
        assert f"the hub answers {what} for {title}" in caught.value.what and hint in caught.value.hint


def test_a_download_that_broke_off_is_continued_by_the_same_command(contrast: Contrast, hub: Hub) -> None:
    hub.faults.append(Fault("GET /storage", cut_at=500))
    what = "the download of the model 'bert-base-uncased' broke off: peer closed connection"
    failed(contrast(*train_from("bert-base-uncased")), 3, what, f"{AGAIN}, which downloads only the files that are")
    assert not list(Path("runs").glob("*")), "no run is left"
    hub.faults.clear()
    hub.downloads()
    assert contrast(*train_from("bert-base-uncased")).code == 0
    assert [name.rpartition("/")[2] for name in hub.downloads()] == ["model.safetensors"]


@pytest.mark.parametrize(
    ("error", "fails_at", "hint"),
    [
        (errno.ENOSPC, 1, "make room on the disk of "),
        (errno.ENOSPC, 9, "make room on the disk of "),
        (FULL, 4, "ulimit -f"),
        (FULL, 14, "ulimit -f"),
    ],
)
def test_a_full_disk_says_where_the_cache_may_go(
    contrast: Contrast, hub: Hub, hub_cache: Path, error: int, fails_at: int, hint: str
) -> None:
    with failing_disk(hub_cache, fails_at, error):
        answer = contrast(*train_from("bert-base-uncased"))
    failed(answer, 1, "cannot write ", hint)
    assert "or keep the cache on another disk: export HF_HOME=DIR" in answer.err
    assert files_of(resolve("bert-base-uncased").folder()) == hub.models["google-bert/bert-base-uncased"].files


def test_the_bytes_of_all_files_are_one_progress(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    # It silences its own bars.
    transformers()
    weights = save({"x": np.zeros(800_000, np.float32)})
    hub.models["owner/large"] = Repo({"config.json": b"{}", "model.safetensors": weights})
    shown: list[tuple[str, int, int]] = []

    def show(what: str, done: int, total: int) -> None:
        shown.append((what, done, total))

    with shown_by(lambda: nullcontext(show)):
        for _ in range(2):
            fetch(Source("owner/large", "", "the model"), ["*"])
    assert {what for what, _, _ in shown} == {"downloading owner/large (MB)"}
    assert [done for _, done, _ in shown] == sorted(done for _, done, _ in shown)
    assert shown[-1][1:] == (4, 4) and [done < total for _, done, total in shown].count(False) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".parquet"])
def test_reading_a_large_file_and_looking_through_its_rows_are_progress(tmp_path: Path, suffix: str) -> None:
    draw = random.Random(0)
    texts = [f"{n} {draw.randbytes(80).hex()}" for n in range(120_000)]
    path, shown = tmp_path / f"large{suffix}", list[tuple[str, int, int]]()
    if suffix == ".parquet":
        parquet.write_table(pyarrow.table({"text": texts}), path)
    else:
        content = "\n".join(texts).encode()
        path.write_bytes(gzip.compress(content, 1) if suffix.endswith("gz") else content)
    with shown_by(lambda: nullcontext(lambda *report: shown.append(report))):
        frame = read_file(path, "large")
        read = len(shown)
        assert [*counted("looking", frame.columns[next(iter(frame.columns))])] == texts
        assert [*counted("looking", texts[:1_000])] == texts[:1_000]
    size = path.stat().st_size // 1_000_000
    assert {shown[0][0], shown[read - 1][0]} == {f"reading large{suffix} (MB)"}
    done = [done for _, done, _ in shown[:read]]
    assert done == sorted(done) and len({*done}) > size / 2 and shown[read - 1][1:] == (size, size)
    assert shown[read:] == [("looking", done, 120_000) for done in range(10_000, 120_001, 10_000)]
    shown.clear()
    assert len(read_file(path, "large")) == 120_000 and shown == []


def test_progress_that_cannot_be_written_ends_the_download_and_the_next_one_begins(hub: Hub) -> None:
    hub.models["owner/large"] = Repo({f"{n}.json": bytes(300_000) for n in range(8)})

    def fail(_what: str, _done: int, _total: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for _ in range(2):
        with shown_by(lambda: nullcontext(fail)), pytest.raises(RunError, match="No space left"):
            fetch(Source("owner/large", "", "the model"), ["*"])


def test_no_thread_watches_bars_whose_start_may_never_end(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tqdm, "monitor_interval", 10)
    monkeypatch.setattr(hub_tqdm, "monitor", None)
    hub.models["owner/small"] = Repo({"config.json": b"{}"})
    fetch(Source("owner/small", "", "the model"), ["*"])
    assert hub_tqdm.monitor is None


def test_a_pipe_gets_lines_and_no_bars_of_libraries(contrast: Contrast, hub: Hub) -> None:
    answer = contrast(*train("--data", CSV, "--no-ui", "--backbone", "bert-base-uncased", "--dev", "stsb"))
    assert answer.code == 0 and "\r" not in answer.err and "%|" not in answer.err
    for name in ("princeton-nlp/datasets-for-simcse", "sentence-transformers/stsb", "bert-base-uncased"):
        assert f"progress  downloading {name} (MB)  1/1\n" in answer.err


def test_a_dry_run_asks_for_a_model_and_downloads_nothing(contrast: Contrast, hub: Hub) -> None:
    answer = contrast(*train_from("bert-base-uncased"), "--dry-run")
    assert answer.code == 0 and "is not on this machine; it will be downloaded" in answer.out
    assert hub.downloads() == []
    refused(contrast(*train_from("bert-bas-uncased"), "--dry-run"), 3, "is neither a folder nor a model on the hub")
    refused(contrast(*train_from("bert-base-uncased@v9"), "--dry-run"), 3, "the hub has no revision 'v9'")


def test_a_run_tells_of_a_download_while_it_trains(tiny: Tiny, hub: Hub, place: Path) -> None:
    run = tiny.run(place, model__backbone="bert-base-uncased", train__max_steps=1)
    assert train_run(run).status == "finished"
    last = [event for event in told(run, Progress) if event.what == "downloading bert-base-uncased (MB)"][-1]
    assert last.done == last.total == 1
