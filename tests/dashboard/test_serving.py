"""The dashboard over HTTP: what it shows, what it refuses, and that it changes nothing."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import time
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest

from helpers.commands import call, refuse
from helpers.dashboards import HOSTILE, HOSTILE_NAME, ask, fetch, run_folders, served
from helpers.forgetting_kill import deep_again
from helpers.told import AtProgress
from pfedul.dashboard.routes import Dashboard
from pfedul.store.ledger import Ledger

HOSTILE_RUN, ALPHA, BROKEN = "runs/1", "runs/2", "runs/3"
PAGES = ("", "live", HOSTILE_RUN, ALPHA, f"{ALPHA}/live", f"{ALPHA}/report", f"{ALPHA}/report/1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return run_folders(tmp_path_factory.mktemp("dashboard"))


@pytest.fixture(scope="module")
def server(folder):
    with served(Dashboard([folder])) as server:
        yield server


def text(server, way: str) -> str:
    reply = fetch(server, way)
    assert reply.status == 200, reply
    return reply.text


class Reader(HTMLParser):
    """Tags with their attributes, and the words between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.words = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_the_overview_has_a_card_for_each_run(server):
    page = Reader(text(server, ""))
    assert [tag for tag, _ in page.tags].count("article") == 3
    assert "alpha" in page.text
    assert "2 of 2" in page.text
    days = re.search(r"overdue by ([\d,]+) days request 1: forget c2", page.text)
    assert days
    assert int(days[1].replace(",", "")) > 2000


def test_a_broken_run_is_a_sentence_and_the_others_are_shown(server):
    sentence = "ledger.db is not a readable pfedul ledger"
    assert sentence in text(server, "")
    assert sentence in text(server, BROKEN)
    (part,) = json.loads(text(server, f"{BROKEN}/live"))
    assert sentence in part["html"]
    assert sentence in fetch(server, f"{BROKEN}/report").text


def test_a_runs_page_has_requests_evidence_certificates_curves_and_history(server):
    page = Reader(text(server, ALPHA))
    headings = ["Requests", "Evidence", "Certificates", "Learning curve", "History"]
    places = [page.text.index(heading) for heading in headings]
    assert places == sorted(places)
    for words in ("case 5", "GDPR Art. 17(1)(b)", "done", "c1", "request 1: pending", "created"):
        assert words in page.text
    assert [tag for tag, values in page.tags if values.get("role") == "img"] == ["svg", "svg"]
    assert "Was c1 forgotten?" in text(server, f"{ALPHA}/report")
    assert text(server, f"{ALPHA}/report/1") == text(server, f"{ALPHA}/report")


@pytest.mark.parametrize("way", ["", HOSTILE_RUN])
def test_hostile_names_are_only_names(server, way):
    page = text(server, way)
    assert not {"img", "b"} & {tag for tag, _ in Reader(page).tags}
    assert HOSTILE_NAME in Reader(page).text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", page)
    if way:
        assert r"<img src=x onerror=alert(1)>" in Reader(page).text
        assert HOSTILE not in page


@pytest.mark.parametrize("way", ["", HOSTILE_RUN, ALPHA])
def test_nothing_comes_from_outside_and_no_script_is_inside(server, way):
    page = Reader(text(server, way))
    scripts = [values for tag, values in page.tags if tag == "script"]
    assert scripts == [{"src": f"{server.base}/live.js", "defer": None}]
    for tag, values in page.tags:
        assert not [name for name in values if name.startswith("on")], tag
        for name in {"href", "src", "data-live", "action"} & values.keys():
            assert values[name].startswith((f"{server.base}/", "#")), (tag, values)


@pytest.mark.parametrize("way", [*PAGES, "style.css", "live.js", "nothing"])
def test_every_answer_forbids_what_it_does_not_need(server, way):
    headers = fetch(server, way).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "script-src 'unsafe" not in policy
    assert ("script-src" in policy) != ("report" in way)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize(
    "way",
    [
        *(
            "runs/0",
            "runs/4",
            "runs/01",
            "runs/-1",
            "runs/\N{SUPERSCRIPT TWO}",
            "runs/" + "9" * 5000,
        ),
        *("runs/2/", "runs/2/ledger.db", "runs/2/../2", "runs/2/report/9", "runs/2/report/x"),
        *("../../etc/passwd", "/etc/passwd", "%2e%2e/", "runs/alpha", "style.css/", "page.html"),
    ],
)
def test_what_is_no_page_is_not_there(server, way):
    reply = fetch(server, quote(way, safe="/%."))
    assert reply.status == 404
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert len(reply.text) < 200


def test_without_the_secret_nothing_is_said(server):
    for base in ("/", "/x/", server.base, server.base[:-1] + "/"):
        reply = fetch(server, "", base=base)
        assert reply.status == 404
        assert "alpha" not in reply.text
        assert server.base not in reply.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:1234"])
def test_the_machines_own_names_are_answered(server, host):
    assert fetch(server, "", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil@localhost", ""],
)
def test_other_names_are_refused(server, host):
    """A page from elsewhere may have a name that leads to this machine."""
    reply = fetch(server, "", headers={"Host": host})
    assert reply.status == 403
    assert "alpha" not in reply.text


def test_two_names_or_none_are_refused(server):
    for hosts in (b"Host: localhost\r\nHost: evil.example\r\n", b""):
        with socket.create_connection(server.server_address) as line:
            line.sendall(b"GET " + server.base.encode() + b"/ HTTP/1.0\r\n" + hosts + b"\r\n")
            assert b" 403 " in line.makefile("rb").readline()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_only_get_and_head_are_answered(server, method):
    reply = fetch(server, "", method=method)
    assert reply.status == 405
    assert reply.headers["Allow"] == "GET, HEAD"
    assert "alpha" not in reply.text


def test_head_is_get_without_the_page(server):
    get, head = (fetch(server, ALPHA, method=method) for method in ("GET", "HEAD"))
    assert head.text == ""
    varies = {"Date"}
    assert head.headers.keys() == get.headers.keys()
    assert {k: v for k, v in head.headers.items() if k not in varies} == {
        k: v for k, v in get.headers.items() if k not in varies
    }


def test_it_listens_on_loopback_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


def test_a_read_only_copy_in_use_is_shown_and_nothing_is_changed(folder, tmp_path):
    run = Path(shutil.copytree(folder / "alpha", tmp_path / "run"))
    for path in (*run.rglob("*"), run):
        path.chmod(0o500 if path.is_dir() else 0o400)
    before = contents(run)
    with (run / "lock").open() as lock, served(Dashboard([run])) as server:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for way in ("", "live", "runs/1", "runs/1/live", "runs/1/report"):
            assert "c1" in text(server, way) or way in {"", "live"}
    assert contents(run) == before
    for path in (run, *run.rglob("*")):
        path.chmod(0o700)


def test_rounds_are_shown_while_the_run_is_trained(folder, tmp_path):
    run = Path(shutil.copytree(folder / "alpha", tmp_path / "run"))
    seen = []

    with served(Dashboard([run])) as server:

        def look(progress):
            if progress.replies == progress.clients:
                seen.append(Reader(text(server, "runs/1")).text)

        with deep_again(run) as federation:
            federation.train(5, callbacks=[AtProgress(look)])
        after = Reader(text(server, "runs/1")).text
    assert f"at work: process {os.getpid()}" in seen[0]
    assert any("3 of 5" in page or "4 of 5" in page for page in seen)
    assert "5 of 5" in after
    assert "no process of yours is at work" in after


def test_parts_change_with_the_run_and_only_then(folder, tmp_path):
    shutil.copytree(folder / "alpha", tmp_path / "runs/one")
    with served(Dashboard([tmp_path / "runs"])) as server:

        def digests() -> dict[str, str]:
            return {p["name"]: p["digest"] for p in json.loads(text(server, "runs/1/live"))}

        before = digests()
        assert digests() == before
        ask(tmp_path / "runs/one", "c2")
        after = digests()
        assert {name for name in before if before[name] != after[name]} >= {"requests", "history"}
        assert after["curves"] == before["curves"]
        assert f'data-digest="{after["requests"]}"' in text(server, "runs/1")
        shutil.copytree(folder / "alpha", tmp_path / "runs/a-new-one")
        assert "a-new-one" in text(server, "")
        assert "one" in Reader(text(server, "runs/1")).text, "a run keeps its number"
        shutil.rmtree(tmp_path / "runs/one")
        assert "There is no run at" in text(server, "runs/1")


def test_content_of_another_kind_is_a_sentence(folder, tmp_path):
    run = Path(shutil.copytree(folder / HOSTILE_NAME, tmp_path / "run"))
    ledger = Ledger(run / "ledger.db")
    words = json.dumps({"asked": {"due": "some day", "by": ["x"]}})
    ledger.write([("UPDATE requests SET options = ?", (words,))])
    ledger.close()
    with served(Dashboard([run])) as server:
        assert "has content that pfedul did not write" in text(server, "runs/1")


def test_the_command_serves_until_ctrl_c(folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    answers = []

    def interrupt_when_it_answers():
        while not answers:
            time.sleep(0.02)
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    line.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    answers.append(line.makefile("rb").readline())
        os.kill(os.getpid(), signal.SIGINT)

    thread = Thread(target=interrupt_when_it_answers)
    thread.start()
    result = call("serve", folder / "alpha", "--port", port, "--json")
    thread.join()
    assert answers == [b"HTTP/1.0 404 Not Found\r\n"]
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["address"].startswith(f"http://127.0.0.1:{port}/")
    assert document["runs"] == [str(folder / "alpha")]


def test_what_cannot_be_served_is_refused(folder, tmp_path):
    assert "There is no run at" in refuse("serve", tmp_path / "nowhere")
    assert "is not a pfedul run folder" in refuse("serve", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"Port {port} cannot be used" in refuse("serve", folder, "--port", port)
