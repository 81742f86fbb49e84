"""A push makes one commit of a whole model and its card, privately unless told, and never shows a token."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from huggingface_hub import constants

from contrastcli.commands.export.card import about, model_card, without_folders
from contrastcli.model.folder import load_encoder
from contrastcli.runs.directory import Run
from contrastcli.settings import presets
from support.command import LABELLED, Contrast, failed, refused, train
from support.contracts import under
from support.hub import Fault, Hub, Repo, files_of

# The hub's client hands files to its own client in a way that this one calls old.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
    pytest.mark.usefixtures("quick_exports"),
]


@pytest.fixture
def hub(served_hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A hub whose user `me` is logged in, with large files by plain HTTP."""
    monkeypatch.setenv("HF_TOKEN", served_hub.token)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    return served_hub


def test_a_push_is_one_commit_of_a_private_model_with_its_card(contrast: Contrast, run: Run, hub: Hub) -> None:
    answer = contrast("export", "simple", "--push", "me/mine")
    assert (answer.code, answer.out) == (0, f"{hub.url}/me/mine\n"), answer.err
    assert 'contrast query "a dog runs" "a puppy sprints" --model me/mine' in answer.err
    assert len(hub.commits) == 1 and hub.models["me/mine"].private
    assert contrast("export", "simple", "out").code == 0
    there, here = dict(hub.models["me/mine"].files), files_of(Path("out"))
    assert there.pop(".gitattributes") == b""
    card, own = there.pop("README.md").decode(), here.pop("README.md").decode()
    assert there == here and card == own.replace('"this folder"', '"me/mine"')
    assert 'SentenceTransformer("me/mine")' in card and "this folder" not in card
    assert sorted(path.name for path in Path().iterdir()) == ["out", "runs", "tiny"]
    assert contrast("query", "a", "b", "--model", "me/mine").code == 0  # as the hub gives it back


def test_a_dry_run_shows_files_and_card_and_asks_the_hub_nothing(contrast: Contrast, run: Run, served_hub: Hub) -> None:
    answer = contrast("export", "simple", "out", "--push", "me/mine", "--dry-run")
    assert answer.code == 0 and "me/mine, private if it is new" in answer.out
    assert "model.safetensors" in answer.out and "# simple" in answer.out and '"me/mine"' in answer.out
    assert not served_hub.requests and not Path("out").exists()
    assert "public if it is new" in contrast("export", "simple", "--push", "me/mine", "--public", "--dry-run").out


def test_what_is_there_is_replaced_on_request_and_what_others_put_there_stays(
    contrast: Contrast, run: Run, hub: Hub
) -> None:
    words = ("export", "simple", "--push", "me/mine")
    hub.models["me/mine"] = Repo({"notes.md": b"mine", "adapter_config.json": b"{}", "README.md": b""}, private=True)
    failed(contrast(*words), 2, "me/mine holds 2 files of a model", "--overwrite")
    assert not hub.commits
    assert contrast(*words, "--overwrite").code == 0
    files = hub.models["me/mine"].files
    assert files["notes.md"] == b"mine" and "adapter_config.json" not in files and "model.safetensors" in files
    assert len(hub.commits) == 1


def test_nothing_is_made_public_unless_told_and_a_folder_is_kept(contrast: Contrast, run: Run, hub: Hub) -> None:
    hub.models["me/mine"] = Repo({})
    failed(contrast("export", "simple", "--push", "me/mine"), 2, "me/mine is public", "--public")
    assert not hub.commits
    assert contrast("export", "simple", "out", "--push", "me/mine", "--public").code == 0
    assert load_encoder(Path("out")).width == 32 and not hub.models["me/mine"].private


@pytest.mark.parametrize("token", ["", "hf_wrong", "hf_se\x01cret", "hf_sécret", "hf_se cret"])
def test_a_token_that_will_not_do_is_said_and_shown_nowhere(
    contrast: Contrast, run: Run, served_hub: Hub, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    answer = contrast("--debug", "export", "simple", "--push", "me/mine")
    what = "the hub answers 401 (Unauthorized) for me/mine" if token == "hf_wrong" else "no token of the hub here"
    assert what in answer.err and answer.code in (2, 3) and "hf auth login" in answer.err.splitlines()[-1]
    assert not token or (token not in answer.err and "cret" not in answer.err)
    assert not served_hub.commits


@pytest.mark.parametrize(
    ("fault", "what", "hint"),
    [
        (Fault("POST /api/repos", 429, {"Retry-After": "7"}), "429 (Too Many Requests)", "again in 7 s"),
        (Fault("POST /api/repos", 500), "500 (Internal Server Error) for me/mine: a fault", "wait a few minutes"),
        (Fault("POST /api/models/me/mine/commit", 403), "403 (Forbidden) for me/mine", "a token that may write it"),
        (Fault("PUT /upload", 403), "403 (Forbidden) for me/mine", "a token that may write it"),
    ],
)
def test_what_the_hub_refuses_is_said_with_what_helps(
    contrast: Contrast, run: Run, hub: Hub, fault: Fault, what: str, hint: str
) -> None:
    hub.faults.append(fault)
    failed(contrast("export", "simple", "--push", "me/mine"), 3, what, hint)


def test_large_files_go_to_storage_once_and_the_commit_names_them(contrast: Contrast, run: Run, hub: Hub) -> None:
    words = ("export", "simple", "--push", "me/mine")
    hub.faults.append(Fault("POST /api/models/me/mine/commit"))
    failed(contrast(*words), 3, "the upload to me/mine broke off", "run the same command again")
    hub.faults.clear()
    assert contrast(*words).code == 0
    assert len([request for request in hub.requests if request.startswith("PUT /upload/")]) == 1
    (weights,) = [line["value"] for line in hub.commits[0] if line["key"] == "lfsFile"]
    assert weights["path"] == "model.safetensors"
    assert weights["size"] == len(hub.models["me/mine"].files["model.safetensors"])


def test_a_storage_that_cannot_be_reached_is_said_with_the_way_without_it(
    contrast: Contrast, run: Run, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    answer = contrast("export", "simple", "--push", "me/mine")  # this hub does not speak its protocol
    failed(answer, 3, "the upload to me/mine broke off", "HF_HUB_DISABLE_XET=1 before it")
    assert not hub.commits


@pytest.mark.filterwarnings("ignore")  # of peft
def test_an_adapter_of_a_folder_here_is_not_pushed_alone(contrast: Contrast) -> None:
    pytest.importorskip("peft")
    assert contrast(*train(*LABELLED, "--lora", "4", "--name", "one", "--no-ui")).code == 0
    answer = contrast("export", "one", "--adapter", "--push", "me/mine", "--dry-run")
    refused(answer, 2, "backbone, which others do not have under that name", "leave out --adapter")


def test_without_a_network_a_push_is_refused_at_once(
    contrast: Contrast, run: Run, hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setenv("HF_TOKEN", "hf_any")
    refused(contrast("export", "simple", "--push", "me/mine"), 3, "the hub cannot be reached", "--dry-run")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    refused(contrast("export", "simple", "--push", "me/mine"), 2, "HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE")


NASTY = [
    "<script>alert(1)</script>.csv",
    "a `b` | c.csv",
    r"a\| <img src=x>.csv",
    "![x](http://tracker.example.org/x)",
    "two\n\n# lines <b>",
    "``` \n<i>",
    "a </code><b>|",
    "``\n\n# Evil <script>alert(1)</script>\n\n",
]


@pytest.mark.parametrize("name", NASTY)
def test_a_rendered_card_shows_hostile_names_as_text(run: Run, name: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    run = Run(run.path.rename("![x](y) <b>|"))
    run.write_config(run.config().with_values({"data.train": name, "dev.data": name, "data.columns": name}))
    suites = {"own": {name: {"pairs": 3, "metric": "spearman", "score": 50.0}}}
    run.scores_path.write_text(json.dumps({"suites": suites}))
    encoder = under(load_encoder(run.checkpoint()), prompt=name)
    encoder.name = run.name
    card = model_card(encoder, about(run), graph="")
    body = card.split("\n---\n", 1)[1]
    page = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    tags = re.findall(r"<(\w+)", page)
    usual = {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "details", "summary"}
    assert usual.issuperset(tags) and tags.count("h1") == 1, tags
    texts = [unescape(text).strip() for text in re.split("<[^>]*>", page)]
    assert run.name in texts
    shown = re.sub(r"\s", " ", without_folders(name)).strip()
    assert texts.count(shown) >= 4, "three settings and the prompt have it"


@pytest.mark.parametrize("backbone", ["acme/base@v1", f"~/hub/models--acme--base/snapshots/{'8f3a' * 10}"])
def test_the_card_names_base_data_scores_verdict_and_environment(run: Run, tmp_path: Path, backbone: str) -> None:
    yaml = pytest.importorskip("yaml")
    named = {"model.backbone": backbone, "data.train": "hf:acme/pairs@v2/a.csv=2,hf:acme/more?split=x"}
    secret = {"alerts.webhook": "https://hooks.example.org/s3cret", "track.to": "wandb"}
    run.write_config(run.config().with_values({**named, **secret}))
    environment = json.loads(run.environment_path.read_text())
    environment["backbone"] = {"name": "acme/base", "revision": "8f3a" * 10}
    environment["device_name"] = "A GPU <b>"
    run.environment_path.write_text(json.dumps(environment))
    card = model_card(load_encoder(run.checkpoint()), about(run), graph="")
    facts = yaml.safe_load(card.split("---\n")[1])
    assert facts["base_model"] == "acme/base" and facts["datasets"] == ["acme/pairs", "acme/more"]
    assert "## Verdict\n\nThe model is " in card
    assert f"| torch | `{environment['packages']['torch']}` |" in card and f"`{'8f3a' * 10}`" in card
    assert "`cpu A GPU <b>`" in card and environment["host"] not in card
    assert "s3cret" not in card and "hooks" not in card and str(tmp_path) not in card and "wandb" not in card


def test_the_command_on_the_card_has_the_settings_of_the_run(trained: Run) -> None:
    card = "\n".join(about(trained).parts)
    [line] = re.findall(r"```sh\ncontrast train (.*)\n```", card)
    words = presets.words(trained.config(), ())
    assert f"--data {Path(trained.config().data.train).name}" in line and "/" not in line
    assert line.split()[0] == words[0] and len(line.split()) == len(words)
    assert all(setting.startswith("--") for setting in line.split()[::2])
