"""A local stand-in for the Hugging Face Hub: the requests that its client makes to push and to download a model."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import yaml

TOKEN = "hf_writer"
BAD_GATEWAY = 502
LFS_SUFFIXES = (".safetensors", ".pt2", ".onnx")


@dataclass
class Commit:
    """Content of every file by path."""

    sha: str
    summary: str
    files: dict[str, bytes]


@dataclass
class Repository:
    """Branches with their commits, the newest one last."""

    private: bool = False
    branches: dict[str, list[Commit]] = field(default_factory=dict)

    def find(self, revision: str) -> Commit | None:
        commits = [commit for branch in self.branches.values() for commit in branch]
        if revision in self.branches:
            return self.branches[revision][-1]
        return next((commit for commit in commits if commit.sha == revision), None)

    def commit(self, branch: str, files: dict[str, bytes], summary: str) -> Commit:
        history = self.branches.setdefault(branch, [])
        digest = hashlib.sha1(repr((branch, len(history), sorted(files))).encode(), usedforsecurity=False).hexdigest()
        history.append(Commit(digest, summary, files))
        return history[-1]


@dataclass
class Hub:
    """The state of the server.

    Attributes:
        address: What HF_ENDPOINT is.
        requests: Method and path of each request.
        failures: Patterns of method and path with the status of the next matching request; 502 is that of a proxy.
    """

    address: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    failures: list[tuple[str, int]] = field(default_factory=list)

    def add(self, name: str, files: dict[str, bytes], *, private: bool = False) -> Repository:
        """A repository with one commit, as somebody else wrote it."""
        repository = self.repositories[name] = Repository(private)
        repository.commit("main", files, "initial commit")
        return repository

    def files(self, name: str, revision: str = "main") -> dict[str, bytes]:
        commit = self.repositories[name].find(revision)
        assert commit is not None
        return commit.files


def read_front_matter(card: str) -> object:
    """The front matter of a card, found as the Hub finds it; None without one."""
    match = re.match(r"^(\s*---\n)([\S\s]*?)(\n---[ \t]*(\n|$))", card)
    return None if match is None else yaml.safe_load(match.group(2))


def find_card_problem(card: str) -> str | None:
    """What the Hub would refuse of the front matter, as far as its specification says it."""
    front = read_front_matter(card)
    if not isinstance(front, dict):
        return "the front matter is no mapping"
    for entry in front.get("model-index", []):
        for result in entry["results"]:
            required = [(result["task"], "type"), (result["dataset"], "type"), (result["dataset"], "name")]
            required += [(metric, key) for metric in result["metrics"] for key in ("type", "value")]
            missing = [key for mapping, key in required if mapping.get(key) in (None, "")]
            if missing:
                return f"model-index lacks {missing[0]}"
    return None


@contextmanager
def serve_hub():
    """Yield a running server on a free port of this machine."""
    hub = Hub()
    handler = type("BoundHandler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self._dispatch()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the names that http.server calls

    def log_message(self, *_):
        """Print nothing."""

    def _dispatch(self):
        path = urlsplit(self.path).path
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length)
        request = f"{self.command} {path}"
        self.hub.requests.append(request)
        for failure in self.hub.failures:
            if re.search(failure[0], request):
                self.hub.failures.remove(failure)
                from_proxy = failure[1] == BAD_GATEWAY
                return self._send(failure[1], b"<html>" if from_proxy else {"error": "out of order"})
        for pattern, answer in _ROUTES.items():
            match = re.fullmatch(pattern, request)
            if match:
                return answer(self, *map(unquote, match.groups()))
        return self._send(404, {"error": f"no route {request}"})

    def _send(self, status, content, headers=None):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _fail(self, status, code, text):
        self._send(status, {"error": text}, {"X-Error-Code": code, "X-Error-Message": text})

    def _may_write(self):
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self._fail(401, "", "Invalid username or password.")
        return False

    def _repository(self, name):
        """The repository if this request may see it, otherwise the answer is sent."""
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"):
            self._fail(404 if repository is None else 401, "RepoNotFound", "Repository not found")
            return None
        return repository

    def _commit(self, name, revision):
        repository = self._repository(name)
        if repository is None:
            return None
        commit = repository.find(revision)
        if commit is None:
            self._fail(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def create(self):
        request = json.loads(self.body)
        if not self._may_write():
            return
        name = f"{request['organization'] or 'me'}/{request['name']}"
        answer = {"url": f"{self.hub.address}/{name}"}
        if name in self.hub.repositories:
            self._send(409, {**answer, "error": "You already created this model repo"})
            return
        self.hub.add(name, {".gitattributes": b""}, private=request.get("visibility") == "private")
        self._send(200, answer)

    def info(self, name, revision="main"):
        commit = self._commit(name, revision)
        if commit is not None:
            siblings = [{"rfilename": path} for path in commit.files]
            private = self.hub.repositories[name].private
            self._send(200, {"id": name, "sha": commit.sha, "private": private, "siblings": siblings})

    def tree(self, name, revision):
        commit = self._commit(name, revision)
        if commit is not None:
            entries = [
                {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha256(data).hexdigest()[:40]}
                for path, data in commit.files.items()
            ]
            self._send(200, entries)

    def branch(self, name, branch):
        repository = self._repository(name)
        if repository is None or not self._may_write():
            return
        if branch in repository.branches:
            self._send(409, {"error": "Reference already exists"})
            return
        repository.branches[branch] = list(repository.branches["main"])
        self._send(200, {})

    def validate(self):
        problem = find_card_problem(json.loads(self.body)["content"])
        errors = [] if problem is None else [{"message": problem}]
        self._send(200 if problem is None else 400, {"errors": errors, "warnings": []})

    def preupload(self, name, revision):
        if self._commit(name, revision) is None or not self._may_write():
            return
        files = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if file["path"].endswith(LFS_SUFFIXES) else "regular",
                "shouldIgnore": False,
            }
            for file in json.loads(self.body)["files"]
        ]
        self._send(200, {"files": files})

    def lfs_batch(self, _name):
        objects = [
            {**item, "actions": {"upload": {"href": f"{self.hub.address}/lfs/{item['oid']}", "header": {}}}}
            for item in json.loads(self.body)["objects"]
        ]
        self._send(200, {"transfer": "basic", "objects": objects})

    def lfs_upload(self, oid):
        assert hashlib.sha256(self.body).hexdigest() == oid
        self.hub.blobs[oid] = self.body
        self._send(200, b"")

    def commit(self, name, revision):
        before = self._commit(name, revision)
        if before is None or not self._may_write():
            return
        header, *operations = [json.loads(line) for line in self.body.splitlines()]
        files = dict(before.files)
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            else:
                del files[value["path"]]
        creates_pr = "create_pr=1" in self.path
        repository = self.hub.repositories[name]
        commit = repository.commit("refs/pr/1" if creates_pr else revision, files, header["value"]["summary"])
        answer = {"commitUrl": f"{self.hub.address}/{name}/commit/{commit.sha}", "commitOid": commit.sha}
        request = f"{self.hub.address}/{name}/discussions/1" if creates_pr else None
        self._send(200, {**answer, "pullRequestUrl": request})

    def resolve(self, name, revision, path):
        commit = self._commit(name, revision)
        if commit is None:
            return
        if path not in commit.files:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit.sha})
            return
        data = commit.files[path]
        self._send(200, data, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": commit.sha})


_NAME = r"([^/]+/[^/]+?)"
_ROUTES = {
    r"POST /api/repos/create": _Handler.create,
    r"POST /api/validate-yaml": _Handler.validate,
    rf"GET /api/models/{_NAME}": _Handler.info,
    rf"GET /api/models/{_NAME}/revision/(.+)": _Handler.info,
    rf"GET /api/models/{_NAME}/tree/(.+)": _Handler.tree,
    rf"POST /api/models/{_NAME}/branch/(.+)": _Handler.branch,
    rf"POST /api/models/{_NAME}/preupload/(.+)": _Handler.preupload,
    rf"POST /api/models/{_NAME}/commit/(.+)": _Handler.commit,
    rf"POST /{_NAME}\.git/info/lfs/objects/batch": _Handler.lfs_batch,
    r"PUT /lfs/([0-9a-f]+)": _Handler.lfs_upload,
    rf"(?:GET|HEAD) /{_NAME}/resolve/([^/]+)/(.+)": _Handler.resolve,
}
