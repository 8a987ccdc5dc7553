"""A model hub on the loopback interface: the three requests that a download makes, and no more."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import close_session, constants

COMMIT = "1234567890abcdef1234567890abcdef12345678"


@dataclass
class Hub:
    """What the server offers, how it behaves, and what it was asked.

    Attributes:
        files: name to content, of every repository.
        errors: repository to (status, code of the hub), for those that are refused.
        broken: file to how many of its bytes are sent before the connection is dropped.
        gate: while it is not set, a weights file stops after its first part.
        asked: method and path of every request.
    """

    url: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    errors: dict[str, tuple[int, str]] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def add(self, repository: str, *folders: Path, **more: bytes) -> None:
        """Offer the files of some folders, and others by name."""
        files = self.repositories.setdefault(repository, {})
        for folder in folders:
            files |= {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
        files |= more

    def fetched(self) -> list[str]:
        """The names of the files whose content was asked for."""
        return [
            request.rsplit("/", 1)[-1]
            for request in self.asked
            if request.startswith("GET") and "/resolve/" in request
        ]


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub that answers on a port of its own until the block ends."""
    hub = Hub()
    hub.gate.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, format: str, *args: object) -> None:
            return None

        def _answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(f"{self.command} {path}")
            if path.startswith("/api/models/") and "/revision/" in path:
                repository, revision = path.removeprefix("/api/models/").split("/revision/")
                self._describe(repository, revision, body)
            elif "/resolve/" in path:
                repository, rest = path[1:].split("/resolve/")
                revision, name = rest.split("/", 1)
                self._send_file(repository, revision, name, body)
            else:
                self._refuse(404, "EntryNotFound")

        def _known(self, repository: str, revision: str) -> bool:
            if repository in hub.errors:
                self._refuse(*hub.errors[repository])
            elif repository not in hub.repositories:
                self._refuse(404, "RepoNotFound")
            elif revision not in ("main", "v1", COMMIT):
                self._refuse(404, "RevisionNotFound")
            else:
                return True
            return False

        def _describe(self, repository: str, revision: str, body: bool) -> None:
            if not self._known(repository, revision):
                return
            files = hub.repositories[repository]
            answer = {
                "id": repository,
                "modelId": repository,
                "sha": COMMIT,
                "siblings": [{"rfilename": n, "size": len(c)} for n, c in files.items()],
            }
            self._send(json.dumps(answer).encode(), {"Content-Type": "application/json"}, body)

        def _send_file(self, repository: str, revision: str, name: str, body: bool) -> None:
            if not self._known(repository, revision):
                return
            content = hub.repositories[repository].get(name)
            if content is None:
                self._refuse(404, "EntryNotFound")
                return
            headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
            most = hub.broken.get(name)
            if body and most is not None:
                self._head(200, headers, len(content))
                self.wfile.write(content[:most])
                self.wfile.flush()
                self.close_connection = True
                return
            self._send(content, headers, body, gated=name.endswith(".safetensors"))

        def _send(
            self, content: bytes, headers: dict[str, str], body: bool, *, gated: bool = False
        ) -> None:
            self._head(200, headers, len(content))
            if not body:
                return
            half = len(content) // 2 if gated else 0
            try:
                self.wfile.write(content[:half])
                self.wfile.flush()
                if gated:
                    hub.gate.wait(20)
                self.wfile.write(content[half:])
            except OSError:
                self.close_connection = True

        def _refuse(self, status: int, code: str) -> None:
            self._head(status, {"X-Error-Code": code, "X-Error-Message": code}, 0)

        def _head(self, status: int, headers: dict[str, str], length: int) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(length))
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hub
    finally:
        hub.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, cache: Path) -> None:
    """Let the package ask this hub, with a cache of its own and nobody's token."""
    close_session()
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
