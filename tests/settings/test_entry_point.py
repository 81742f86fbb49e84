"""An objective of another package, installed as the help says, is one like ours."""

import math
import re
import tomllib
from pathlib import Path

import pytest

from contrastcli.runs.directory import Run
from contrastcli.runs.events import Note
from contrastcli.runs.measured import Step
from support.command import Contrast, failed
from support.packages import contrast as in_process
from support.packages import files_of_topic, found_here, install, python
from support.tiny import Tiny

OBJECTIVE = ("--objective", "soft-triplet")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of installed packages with the topic's in it."""
    folder = tmp_path_factory.mktemp("site")
    install(files_of_topic("own-objective"), folder)
    return folder


@pytest.fixture(autouse=True)
def options(contrast: Contrast) -> None:
    """A process makes the options of a command once: here before the package is found, for the tests of others."""
    for words in ("train", "config show"):
        contrast(*words.split(), "--help")


def on(tiny: Tiny) -> tuple[str, ...]:
    """Its two steps on tiny triplets."""
    data = ("--data", str(tiny.data["triplets"]), "--dev", str(tiny.dev), "--backbone", str(tiny.backbone))
    return (*OBJECTIVE, *data, "--general", "none", "--batch-size", "8", "--max-steps", "2", "--log-every", "1")


def test_it_trains_with_its_own_settings_and_a_resume_tells_of_another_version_of_its_package(
    site: Path, tiny: Tiny, contrast: Contrast
) -> None:
    words = ("--set", "objective.similarity=angle", "--set", "objective.sharpness=0.001", "--no-ui")
    with found_here(site):
        run = Run(Path(contrast("train", *on(tiny), *words).out.strip()))
        stored = tomllib.loads(run.config_path.read_text())["objective"]
        assert stored == {"name": "soft-triplet", "similarity": "angle", "margin": 10.0, "sharpness": 0.001}
        steps = [event for event in run.events() if isinstance(event, Step)]
        assert [set(step.parts) for step in steps] == [{"triplet"}] * 2
        assert steps[0].loss == pytest.approx(math.log(2) / 0.001, abs=2)  # so flat, whatever the angles are
        recorded = run.environment_path.read_text()
        assert '"soft-triplet": "0.1"' in recorded
        run.environment_path.write_text(recorded.replace('"soft-triplet": "0.1"', '"soft-triplet": "0.0"'))
        contrast("train", "--resume", run.name, "--max-steps", "3", "--no-ui")
        assert contrast("export", run.name, "out").code == 0
    card = Path("out/README.md").read_text()
    assert "To train it again, with the same data and soft-triplet 0.1:" in card
    assert "| `objective.margin` | `10` |" in card and "| `model.denoise` | `true` |" in card
    notes = [event.text for event in run.events() if isinstance(event, Note)]
    assert "resumed with soft-triplet 0.1 (was 0.0)" in notes


def test_its_settings_are_options_and_show_their_sources(site: Path, contrast: Contrast) -> None:
    assert re.search(r"--sharpness FLOAT\s+κ: how steep the edge is", in_process(site, "train", "--help"))
    typed = in_process(site, "config", "show", *OBJECTIVE, "--sharpness", "7")
    assert re.search(r"^objective\.sharpness\s+7\s+--sharpness\s+κ$", typed, re.M)
    with found_here(site):
        shown = contrast("config", "show", *OBJECTIVE, "--similarity", "angle").out
    assert re.search(r"^objective\.sharpness\s+20\s+default\s+κ$", shown, re.M)
    assert re.search(r"^objective\.margin\s+10\s+default\s+m degrees$", shown, re.M)


def test_it_is_the_last_of_all_objectives_and_imports_no_torch(site: Path) -> None:
    code = (
        "import sys; from contrastcli.settings import catalogue; names = [s.name for s in catalogue.all_objectives()]; "
    )
    code += "print(names[-1], 'torch' in sys.modules)"
    assert python(site, "-c", code).stdout.split() == ["soft-triplet", "False"]


def test_of_this_package_it_imports_the_api_alone() -> None:
    assert set(re.findall(r"(?:from|import) (contrastcli\S*)", "".join(files_of_topic("own-objective").values()))) == {
        "contrastcli.api"
    }


def test_a_package_that_cannot_be_loaded_is_a_note_and_stops_only_what_needs_it(
    contrast: Contrast, tiny: Tiny, tmp_path: Path
) -> None:
    files = files_of_topic("own-objective") | {"soft_triplet/__init__.py": "import no_such_module\n"}
    install(files, tmp_path)
    note = "'soft-triplet' of contrast.objectives (soft_triplet:SPEC) cannot be loaded: No module named"
    for words in (("config", "show"), ("train", *on(tiny)[2:], "--objective", "simcse"), ("help", "objectives")):
        with found_here(tmp_path):
            answer = contrast(*words)
        assert answer.code == 0 and answer.err.count("note: ") == answer.err.count(f"note: {note}") == 1
    with found_here(tmp_path):
        failed(contrast("config", "show", *OBJECTIVE), 2, note, "pip uninstall soft-triplet")
