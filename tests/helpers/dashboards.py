"""Run folders for a dashboard, and a dashboard that is served while a test runs."""

from __future__ import annotations

import http.client
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from helpers.forgetting_kill import TARGET, copied, deep_again, trained
from pfedul.dashboard.routes import Dashboard
from pfedul.dashboard.server import Server
from pfedul.store.requests import file_request
from pfedul.store.store import Store

HOSTILE = "<img src=x onerror=alert(1)> \x1b[2J\u202e&\"'"
HOSTILE_NAME = "a<b>'&\"c"
OVERDUE = "2020-02-29"


def ask(run: Path, client: str, by: str = "case 7", due: str = OVERDUE) -> None:
    """File a request that nobody honours yet."""
    store = Store.open(run)
    file_request(store.ledger, [client], {}, {"by": by, "ground": by, "due": due})
    store.close()


def run_folders(folder: Path) -> Path:
    """A folder with a run that forgot a client, one with an overdue request, and a broken one."""
    first = trained(folder / "alpha", rounds=2, evaluate_every=1)
    ask(copied(first, folder / HOSTILE_NAME), "c2", by=HOSTILE)
    shutil.copytree(first, folder / "broken")
    (folder / "broken/ledger.db").write_bytes(b"not a database")
    with deep_again(first) as federation:
        federation.forget(TARGET, by="case 5", ground="GDPR Art. 17(1)(b)")
    return folder


class Reply(NamedTuple):
    """What an HTTP server sent."""

    status: int
    headers: dict[str, str]
    text: str


@contextmanager
def served(dashboard: Dashboard) -> Iterator[Server]:
    """The dashboard on a free port until the block ends."""
    server = Server(dashboard)
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch(
    server: Server,
    way: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    base: str | None = None,
) -> Reply:
    """Ask for a way, below the base of the server if no other is given."""
    line = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    line.request(
        method, f"{server.base}/{way}" if base is None else base + way, headers=headers or {}
    )
    reply = line.getresponse()
    result = Reply(reply.status, dict(reply.getheaders()), reply.read().decode())
    line.close()
    return result
