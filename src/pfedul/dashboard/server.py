"""The HTTP server of the dashboard: this machine only, GET and HEAD only.

Two doors stand open on loopback, and are closed here. Another user of the machine can connect as
well: so every address begins with a secret that only who started the server is told. A web page in
the user's browser can have a name that leads to 127.0.0.1: so only requests to the machine's own
names are answered.
"""

from __future__ import annotations

import os
import re
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn

from pfedul.dashboard.routes import POLICY, Answer, Dashboard
from pfedul.errors import PfedulError

HOST = "127.0.0.1"
_OWN_NAMES = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Server(ThreadingMixIn, TCPServer):
    """Listens at once; `run` answers until Ctrl-C. Idle lines of a browser do not block it."""

    daemon_threads = True
    allow_reuse_address = os.name == "posix"

    def __init__(self, dashboard: Dashboard, port: int = 0) -> None:
        self.dashboard = dashboard
        self.base = f"/{secrets.token_urlsafe(16)}"
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise PfedulError(
                f"Port {port} cannot be used ({error.strerror}); give another one, or leave "
                "--port out."
            ) from None

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{HOST}:{self.server_address[1]}{self.base}/"

    def run(self) -> None:
        """Answer until Ctrl-C."""
        try:
            self.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            pass
        finally:
            self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    server_version, sys_version = "pfedul", ""
    timeout = 20
    policy = POLICY

    def parse_request(self) -> bool:
        """Whether there is something to answer; what is neither GET nor HEAD is refused here."""
        if not super().parse_request():
            return False
        if self.command in {"GET", "HEAD"}:
            return True
        self._write(HTTPStatus.METHOD_NOT_ALLOWED, _text("Only GET and HEAD are answered."))
        return False

    def do_GET(self) -> None:
        self._write(*self._result())

    def do_HEAD(self) -> None:
        self._write(*self._result())

    def _result(self) -> tuple[HTTPStatus, Answer]:
        if not self._is_own_name():
            return HTTPStatus.FORBIDDEN, _text("This name is not answered.")
        try:
            return HTTPStatus.OK, self._answer()
        except PfedulError as error:
            return HTTPStatus.NOT_FOUND, _text(str(error))

    def _answer(self) -> Answer:
        base, way = self.server.base, self.path.partition("?")[0]
        if not secrets.compare_digest(way[: len(base) + 1].encode(), f"{base}/".encode()):
            raise PfedulError("Use the whole address that 'pfedul serve' printed.")
        return self.server.dashboard.answer(way[len(base) + 1 :], base)

    def _is_own_name(self) -> bool:
        names = self.headers.get_all("Host") or []
        return len(names) == 1 and _OWN_NAMES.fullmatch(names[0].strip()) is not None

    def _write(self, status: HTTPStatus, answer: Answer) -> None:
        body = answer.text.encode(errors="replace")
        self.policy = answer.policy
        self.send_response(status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def end_headers(self) -> None:
        """With the headers that every answer has, those of http.server's own errors included."""
        self.send_header("Content-Security-Policy", self.policy)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: addresses hold the secret."""


def _text(sentence: str) -> Answer:
    return Answer("text/plain", sentence)
