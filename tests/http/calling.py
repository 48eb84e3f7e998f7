"""Calls a server under test as clients do."""

from __future__ import annotations

import uuid
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from tests.contrib.serving import PATIENCE, Web
from tests.contrib.shop import Settings
from tests.waiting import wait_until

COMMANDS = {
    "asgi": ("-m", "uvicorn", "tests.http.asgi_site:web", "--port", "{port}", "--log-level", "warning"),
    "wsgi": ("-m", "tests.http.wsgi_site", "{port}"),
}


def new_key() -> str:
    return str(uuid.uuid4())


class Caller:
    """A server, and what its handlers have done."""

    def __init__(self, shell: str, settings: Settings, folder: Path, cleanup: ExitStack) -> None:
        self.shell = shell
        self.settings = settings
        self.folder = folder
        self._cleanup = cleanup
        self._count = 0
        self.serve()

    def serve(self) -> None:
        """Start it, also once more after it has been killed."""
        self._count += 1
        log = self.folder / f"{self.shell}-{self._count}.log"
        self.web = Web(list(COMMANDS[self.shell]), self.settings.environment(), log)
        self._cleanup.callback(self.web.close)
        base = self.web._client.base_url
        alone = httpx2.Limits(max_keepalive_connections=0)
        self.client = httpx2.Client(base_url=base, timeout=PATIENCE, limits=alone)
        self._cleanup.callback(self.client.close)

    def beside(self, shell: str) -> Caller:
        """Another server on the same store."""
        return Caller(shell, self.settings, self.folder, self._cleanup)

    def post(self, key: str | None, path: str = "/plain/orders", **options: Any) -> Any:
        """One request. `effect` and `then` go into the query, `more` are headers."""
        return self.client.request(**self.request(key, path, **options))

    def request(
        self,
        key: str | None,
        path: str = "/plain/orders",
        *,
        effect: str = "",
        then: str = "",
        body: bytes = b"{}",
        method: str = "POST",
        more: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        params = {"effect": effect or (key or "none")} | ({"then": then} if then else {})
        headers = ({} if key is None else {"Idempotency-Key": key}) | (more or {})
        return {"method": method, "url": path, "params": params, "headers": headers, "content": body}

    def twice(self, key: str, path: str = "/plain/orders", **options: Any) -> tuple[Any, Any]:
        """The same request twice, one after the other."""
        return self.post(key, path, **options), self.post(key, path, **options)

    @property
    def effects(self) -> Counter[str]:
        """How often each handler has run."""
        file = self.folder / "effects"
        return Counter(file.read_text().splitlines() if file.exists() else [])

    def wait_held(self, effect: str) -> None:
        """Until a handler has come to where it waits."""
        self.web.watch((self.folder / f"{effect}.held").exists, f"the handler of {effect}")

    def let_go(self, effect: str) -> None:
        (self.folder / f"{effect}.go").touch()

    def until(self, key: str, status: int, path: str = "/plain/orders", **options: Any) -> Any:
        """Send the request again until it is answered so; every answer before is a 409."""

        def answered() -> Any:
            response = self.post(key, path, **options)
            assert response.status_code in (status, 409), response.text
            return response if response.status_code == status else None

        return wait_until(answered, PATIENCE, f"the answer {status}")


def start(shell: str, settings: Settings, folder: Path, cleanup: ExitStack) -> Caller:
    return Caller(shell, settings, folder, cleanup)


def is_replay(response: Any) -> bool:
    return bool(response.headers.get("Idempotent-Replayed") == "true")


def kind_of(response: Any) -> str:
    """Of a problem."""
    assert response.headers["Content-Type"] == "application/problem+json", response.text
    problem = response.json()
    assert problem["status"] == response.status_code
    assert problem["title"]
    assert problem["detail"]
    return str(problem["type"].removeprefix("urn:headrace:idempotency-key:"))
