"""A server on the loopback address that answers as the Hugging Face hub does: models and data sets from memory.

It knows what the clients ask for: the information on a repository and a revision, trees, paths, and files with their
ETag and commit, large ones by a redirect to storage on another host. Whoever has its token makes repositories of `me`
and commits files to them, all within the commit. Faults can be put in its way.
"""

import base64
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote

import pyarrow as pa
from pyarrow import parquet

from support.tiny import Tiny

SPLITS = ("train", "validation", "test")
_LARGE = (".safetensors", ".bin", ".parquet", ".csv")
"""Kept in storage apart, whatever their size."""

_REPO = r"(?P<kind>models|datasets)/(?P<repo>[^/]+(?:/[^/]+)?)"
_INFO = re.compile(rf"/api/{_REPO}(?:/revision/(?P<revision>.+))?")
_TREE = re.compile(rf"/api/{_REPO}/(?P<ask>tree|paths-info)/(?P<revision>[^/]+)(?:/(?P<path>.*))?")
_FILE = re.compile(r"/(?:(?P<kind>datasets)/)?(?P<repo>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_COMMIT = re.compile(rf"/api/{_REPO}/(?P<ask>preupload|commit)/main")
_BATCH = re.compile(r"/(?P<repo>[^/]+/[^/]+)\.git/info/lfs/objects/batch")
_UPLOAD = re.compile(r"/upload/(?P<oid>[0-9a-f]{64})")
_KEPT = re.compile(rf"/api/resolve-cache/{_REPO}/(?P<revision>[0-9a-f]{{40}})/(?P<path>.+)")


@dataclass(frozen=True)
class Repo:
    """Files by their path; of a `gated` one everybody sees the names, and nobody here the contents."""

    files: Mapping[str, bytes]
    gated: bool = False
    private: bool = False

    @property
    def commit(self) -> str:
        names = "".join(f"{path} {hashlib.sha1(content).hexdigest()}\n" for path, content in self.files.items())
        return hashlib.sha1(names.encode()).hexdigest()

    def tree(self, folder: str = "", *, recursive: bool = True) -> list[dict[str, object]]:
        """The entries below a folder as the hub lists them."""
        entries: dict[str, dict[str, object]] = {}
        for path, content in self.files.items():
            below = path.removeprefix(f"{folder}/") if folder else path
            if folder and below == path:
                continue
            parents = [path[: match.start()] for match in re.finditer("/", path) if match.start() > len(folder)]
            for parent in parents if recursive else parents[:1]:
                entries[parent] = {"type": "directory", "oid": etag_of(parent, b""), "size": 0, "path": parent}
            if recursive or "/" not in below:
                entries[path] = entry_of(path, content)
        return list(entries.values())


def entry_of(path: str, content: bytes) -> dict[str, object]:
    """A file as the hub lists it."""
    entry: dict[str, object] = {"type": "file", "oid": etag_of("", content), "size": len(content), "path": path}
    if path.endswith(_LARGE):
        entry["lfs"] = {"oid": etag_of(path, content), "size": len(content), "pointerSize": 134}
    return entry


def etag_of(path: str, content: bytes) -> str:
    """What the hub calls a file's content: SHA-256 of large files, git's SHA-1 of others."""
    if path.endswith(_LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Fault:
    """What happens to requests for a part of a path: an answer in place of the usual one, or an end after bytes."""

    part: str
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_at: int = 0


@dataclass
class Hub:
    """The repositories by kind and name, names that have moved, faults, and what was asked for so far."""

    models: dict[str, Repo] = field(default_factory=dict)
    datasets: dict[str, Repo] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    """Method, path and range."""
    storage: dict[str, bytes] = field(default_factory=dict)
    uploaded: dict[str, bytes] = field(default_factory=dict)
    """Large files by their SHA-256, before a commit names them."""
    token: str = "hf_loopback"
    """Of the user `me`, who may write."""
    commits: list[list[dict[str, Any]]] = field(default_factory=list)
    """The lines of each."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def downloads(self) -> list[str]:
        """The contents that were asked for since the last call, by file and range."""
        got = [request.removeprefix("GET ") for request in self.requests if request.startswith("GET ")]
        self.requests.clear()
        return [name for name in got if name.startswith(("/api/resolve-cache/", "/storage/"))]


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """Answer requests in threads of this process."""

    class Bound(_Handler):
        pass

    Bound.hub = hub
    with _Server(("127.0.0.1", 0), Bound) as server:
        hub.port = server.server_port
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()


def publish(hub: Hub, tiny: Tiny) -> None:
    """Give a hub what presets read, under its names, as small as it can be, and a model and data that are gated."""
    hub.moved["bert-base-uncased"] = "google-bert/bert-base-uncased"
    hub.models["google-bert/bert-base-uncased"] = Repo(files_of(tiny.backbone))
    hub.models["closed/model"] = Repo(files_of(tiny.backbone), gated=True)
    triplets = [json.loads(line) for line in tiny.data["triplets"].read_text().splitlines()]
    rows = [",".join(row[name] for name in ("anchor", "positive", "negative")) for row in triplets * 4]
    simcse = {
        "README.md": b"---\nlicense: mit\n---\n",
        "nli_for_simcse.csv": "\n".join(["sent0,sent1,hard_neg", *rows, ""]).encode(),
        "wiki1m_for_simcse.txt": "".join(row["anchor"] + "\n" for row in triplets).encode(),
    }
    hub.datasets["princeton-nlp/datasets-for-simcse"] = Repo(simcse)
    hub.datasets["closed/data"] = Repo(simcse, gated=True)
    dev = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist([json.loads(line) for line in tiny.dev.read_text().splitlines()]), dev)
    splits = [f"  - split: {split}\n    path: data/{split}-*\n" for split in SPLITS]
    card = f"---\nconfigs:\n- config_name: default\n  data_files:\n{''.join(splits)}---\n"
    files = {f"data/{split}-00000-of-00001.parquet": dev.getvalue() for split in SPLITS}
    hub.datasets["sentence-transformers/stsb"] = Repo({"README.md": card.encode(), **files})


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a folder as those of a repository."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: clients may be killed."""


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        path = unquote(self.path).partition("?")[0]
        if match := _COMMIT.fullmatch(path):
            self._write(path, lambda: self._commit(match, body))
        elif _BATCH.fullmatch(path):
            self._write(
                path, lambda: self._send_json({"objects": [self._offer(**one) for one in json.loads(body)["objects"]]})
            )
        elif path in ("/api/repos/create", "/api/validate-yaml"):
            self._write(path, lambda: self._create(json.loads(body)) if "create" in path else self._send_json({}))
        else:
            self._answer(parse_qs(body).get("paths", []))

    def do_PUT(self) -> None:
        """Take a large file, as storage on another host does: without a token."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.hub.requests.append(f"PUT {self.path}")
        struck = next((fault for fault in self.hub.faults if fault.part in f"PUT {self.path}"), None)
        if struck and struck.status:
            self._send(struck.status, b"a fault", struck.headers)
        elif struck or "Authorization" in self.headers:
            self.close_connection = True
        elif (match := _UPLOAD.fullmatch(self.path)) and hashlib.sha256(content).hexdigest() == match["oid"]:
            self.hub.uploaded[match["oid"]] = content
            self._send(200, b"")
        else:
            self._send(400, b"another content")

    def _offer(self, oid: str, size: int) -> dict[str, object]:
        """Where to put a large file, and nowhere if it is there."""
        if oid in self.hub.uploaded:
            return {"oid": oid, "size": size}
        href = f"http://localhost:{self.hub.port}/upload/{oid}"
        return {"oid": oid, "size": size, "actions": {"upload": {"href": href}}}

    def _write(self, path: str, answer: Callable[[], None]) -> None:
        """Answer whoever has the token, unless a fault strikes."""
        self.hub.requests.append(f"POST {path}")
        struck = next((fault for fault in self.hub.faults if fault.part in f"POST {path}"), None)
        if struck and struck.status:
            self._send(struck.status, b'{"error": "a fault"}', struck.headers)
        elif struck:
            self.close_connection = True
        elif self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            self._send(401, b'{"error": "Invalid credentials in Authorization header"}')
        else:
            answer()

    def _create(self, asked: dict[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        if name in self.hub.models:
            there = {"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"}
            self._send(409, json.dumps(there).encode())
        else:
            private = asked.get("private", asked.get("visibility") == "private")
            self.hub.models[name] = Repo({".gitattributes": b""}, private=private)
            self._send_json({"url": f"{self.hub.url}/{name}", "id": name})

    def _commit(self, match: re.Match[str], body: str) -> None:
        """Say of each file that the commit has it, or take the commit."""
        if match["ask"] == "preupload":
            paths = [one["path"] for one in json.loads(body)["files"]]
            modes = {path: "lfs" if path.endswith(_LARGE) else "regular" for path in paths}
            files = [{"path": path, "uploadMode": mode, "shouldIgnore": False} for path, mode in modes.items()]
            self._send_json({"files": files})
            return
        repo, lines = self.hub.models[match["repo"]], [json.loads(line) for line in body.splitlines()]
        self.hub.commits.append(lines)
        files_now = dict(repo.files)
        for key, value in ((line["key"], line["value"]) for line in lines):
            if key == "deletedFile":
                files_now.pop(value["path"], None)
            elif key != "header":
                content = base64.b64decode(value["content"]) if key == "file" else self.hub.uploaded[value["oid"]]
                files_now[value["path"]] = content
        self.hub.models[match["repo"]] = replace(repo, files=files_now)
        url = f"{self.hub.url}/{match['repo']}/commit/{repo.commit}"
        self._send_json({"commitUrl": url, "commitOid": repo.commit, "success": True})

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests read what was asked for."""

    def _answer(self, paths: list[str] | None = None) -> None:
        path, _, query = unquote(self.path).partition("?")
        asked = " ".join(filter(None, [self.command, path, self.headers.get("Range")]))
        self.hub.requests.append(asked)
        struck = next((fault for fault in self.hub.faults if fault.part in asked), None)
        if struck and struck.status:
            self._send(struck.status, b'{"error": "a fault"}', struck.headers)
        elif content := self.hub.storage.get(path.removeprefix("/storage/")):
            self._send_part(content, {}, struck.cut_at if struck else 0)
        elif match := _KEPT.fullmatch(path):
            self._send_file(match, struck.cut_at if struck else 0)
        elif match := _FILE.fullmatch(path):
            self._resolve(match)
        elif match := _TREE.fullmatch(path):
            self._send_tree(match, "recursive=true" in query.lower(), paths)
        elif match := _INFO.fullmatch(path):
            self._send_info(match)
        else:
            self._send(200 if path == "/" else 404, b"{}")

    def _find(self, match: re.Match[str]) -> Repo | None:
        """The repository that a path names, and whether it has that revision; else the answer is sent."""
        name = match["repo"]
        if name in self.hub.moved:
            self._send(307, b"", {"Location": self.path.replace(name, self.hub.moved[name], 1)})
            return None
        kind = self.hub.datasets if match["kind"] == "datasets" else self.hub.models
        repo = kind.get(name)
        if repo is None:
            self._refuse("RepoNotFound", "Repository not found")
        elif match["revision"] not in (None, "main", repo.commit):
            self._refuse("RevisionNotFound", f"Invalid rev id: {match['revision']}")
        else:
            return repo
        return None

    def _send_info(self, match: re.Match[str]) -> None:
        if repo := self._find(match):
            siblings = [{"rfilename": path} for path in repo.files]
            info = {"id": match["repo"], "sha": repo.commit, "siblings": siblings, "private": repo.private, "tags": []}
            self._send_json({**info, "gated": "manual" if repo.gated else False, "downloads": 0, "likes": 0})

    def _send_tree(self, match: re.Match[str], recursive: bool, paths: list[str] | None) -> None:
        if not (repo := self._find(match)):
            return
        if paths is not None:
            self._send_json([entry for entry in repo.tree() if entry["path"] in paths])
        elif entries := repo.tree(match["path"] or "", recursive=recursive):
            self._send_json(entries)
        else:
            self._refuse("EntryNotFound", f"{match['path']} does not exist")

    def _resolve(self, match: re.Match[str]) -> None:
        """What of a file its name and revision tell: where its content is."""
        if not (repo := self._find(match)):
            return
        content, path = repo.files.get(match["path"]), match["path"]
        if content is None:
            self._refuse("EntryNotFound", "Entry not found", {"X-Repo-Commit": repo.commit})
        elif repo.gated:
            self._refuse("GatedRepo", "Access to this repository is restricted", {"X-Repo-Commit": repo.commit}, 401)
        elif path.endswith(_LARGE):
            etag = etag_of(path, content)
            self.hub.storage[f"{etag}/{path}"] = content
            linked = {"X-Linked-Size": str(len(content)), "X-Linked-ETag": f'"{etag}"', "X-Repo-Commit": repo.commit}
            # By another name, so that it is another host.
            self._send(302, b"", {**linked, "Location": f"http://localhost:{self.hub.port}/storage/{etag}/{path}"})
        else:
            place = f"/api/resolve-cache/{match['kind'] or 'models'}/{match['repo']}/{repo.commit}/{path}"
            self._send(307, b"", {"Location": place, "X-Repo-Commit": repo.commit})

    def _send_file(self, match: re.Match[str], cut_at: int) -> None:
        if repo := self._find(match):
            content = repo.files[match["path"]]
            headers = {"ETag": f'"{etag_of(match["path"], content)}"', "X-Repo-Commit": repo.commit}
            self._send_part(content, headers, cut_at)

    def _send_part(self, content: bytes, headers: Mapping[str, str], cut_at: int) -> None:
        """The bytes of a Range, or all; the connection ends after `cut_at`, if that is not 0."""
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(begin[1]) if begin else 0
        ranged = {"Content-Range": f"bytes {first}-{len(content) - 1}/{len(content)}"} if begin else {}
        self._send(206 if begin else 200, content[first:], {**headers, **ranged}, cut_at)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, code: str, message: str, headers: Mapping[str, str] | None = None, status: int = 404) -> None:
        body = json.dumps({"error": message}).encode()
        self._send(status, body, {"X-Error-Code": code, "X-Error-Message": message, **(headers or {})})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None, cut_at: int = 0) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:cut_at] if cut_at else body)
        if cut_at:
            self.close_connection = True
