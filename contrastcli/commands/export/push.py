"""`contrast export`, to a folder, to a repository of the hub as one commit, or to both."""

import re
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contrastcli.boundary import narrate, print_path, print_text
from contrastcli.commands.export.export import EXPORTED, export_model
from contrastcli.data.downloads import Repo, check_reachable, explained
from contrastcli.errors import UsageError, Use
from contrastcli.model.adapters import base_here
from contrastcli.model.locate import resolve
from contrastcli.show.format import size, table

# Large files go to a storage of another protocol, which some networks do not let through.
_AGAIN = "run the same command again; if it breaks off again, with HF_HUB_DISABLE_XET=1 before it"


def export(
    model: str, dest: Path | None, directory: Path, repo: str | None, public: bool, dry_run: bool, **how: Any
) -> None:
    """Export a model as `export_model` does and print its place; to the hub, or with `dry_run` what would be there.

    Raises what that does, UsageError for names and options, and DataError for what the hub answers.
    """
    if repo is None and (dest is None or public or dry_run):
        what = "there is no folder to write to" if dest is None else "--public and --dry-run are for --push"
        raise UsageError(what, f"contrast export {shlex.quote(model)} DEST, or add --push OWNER/NAME")
    place = None if repo is None else _check(repo, dry_run)
    ref = resolve(model, directory)
    if place and how["adapter"] and (base := base_here(ref.folder())):
        what = f"the adapter's base is {base}, which others do not have under that name"
        raise UsageError(what, Use("--adapter", verb="to push the sum, leave out"))
    with TemporaryDirectory(prefix="contrast-") as parent:
        to = Path(parent, "model") if dest is None or dry_run else dest
        folder = export_model(ref, to, **how)
        if place:
            card = (folder / "README.md").read_text(encoding="utf-8").replace('"this folder"', f'"{repo}"')
            files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
            if dry_run:
                sizes = [(name, size(path.stat().st_size)) for name, path in files.items()]
                would = f"would upload to {place.page}, {'public' if public else 'private'} if it is new:"
                return print_text(f"{would}\n\n{table(('file', 'size'), sizes)}\n\n{card}")
            _upload(place, files, card, public, how["overwrite"])
    print_path(place.page if place else folder)
    if how["kind"] in ("sentence-transformers", "static"):
        named = shlex.quote(repo or str(folder))
        narrate(f'next: contrast query "a dog runs" "a puppy sprints" --model {named}')


def _check(repo: str, dry_run: bool) -> Repo:
    """The repository of that name. Raises UsageError and DataError where nothing can be uploaded, at once."""
    from huggingface_hub import constants, get_token

    if not re.fullmatch(r"\w[\w-]*/\w[\w.-]*", repo, re.ASCII):
        raise UsageError(f"'{repo}' is no name on the hub", "write --push OWNER/NAME, such as --push me/my-encoder")
    if not dry_run:
        if constants.HF_HUB_OFFLINE:
            raise UsageError("HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE, or see it: --dry-run")
        # The client's errors would show a token with other characters.
        if not re.fullmatch(r"[!-~]+", get_token() or ""):
            raise UsageError("there is no token of the hub here", "hf auth login, or HF_TOKEN=… before the command")
        check_reachable("the hub cannot be reached", "push where there is a network, or see it: --dry-run")
    return Repo(repo, "", repo)


def _upload(repo: Repo, files: dict[str, Path], card: str, public: bool, overwrite: bool) -> None:
    """Commit files and the card to a repository, which is made if need be, in place of what an export has there."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

    narrate(f"uploading {len(files)} files, {size(sum(path.stat().st_size for path in files.values()))}")
    with explained(repo, "the upload to {} broke off", _AGAIN, access="write"), ExitStack() as after:
        if not sys.stderr.isatty():
            disable_progress_bars()
            after.callback(enable_progress_bars)
        api = HfApi()
        api.create_repo(repo.name, private=not public, exist_ok=True)
        info = api.model_info(repo.name)
        if not (info.private or public):
            raise UsageError(f"{repo.page} is public", [Use("--public"), "name another repository"])
        there = {file.rfilename for file in info.siblings or () if EXPORTED.fullmatch(file.rfilename)}
        if there and not overwrite:
            what = f"{repo.page} holds {len(there)} files of a model"
            raise UsageError(what, [Use("--overwrite"), "name another repository"])
        contents: dict[str, Path | bytes] = {**files, "README.md": card.encode()}
        former = [CommitOperationDelete(name) for name in sorted(there - {*files})]
        added = [CommitOperationAdd(name, content) for name, content in contents.items()]
        api.create_commit(repo.name, [*former, *added], commit_message="Upload by contrast export")
