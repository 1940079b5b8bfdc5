"""A local Flower deployment for tests: the commands as users call them, and what runs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from pfedul.base.hashes import digest_file
from pfedul.base.tensorfile import as_hash, read_file
from pfedul.cli import Commands
from pfedul.cli.deploy import down, up
from pfedul.flower.deployment import control
from pfedul.flower.deployment.certificates import node_key
from pfedul.flower.deployment.environment import address
from pfedul.flower.deployment.layout import SUPERLINK, DeploymentPaths
from pfedul.flower.deployment.processes import DeploymentRecord, end, family, moment, read_record
from pfedul.flower.signing import public_form

COMMANDS = Commands(commands={"up": up, "down": down})


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(COMMANDS, [str(word) for word in words])


def answer(*words: str | Path) -> dict[str, Any]:
    """The JSON of a command that must succeed."""
    result = call(*words, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


def sentence(*words: str | Path) -> str:
    """The one sentence of a command that must fail."""
    result = call(*words)
    assert result.exit_code not in {0, None}
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("Error:")]
    assert len(lines) == 1
    return " ".join(result.stderr.split())


def record_of(run: Path) -> DeploymentRecord:
    found = read_record(DeploymentPaths(run.absolute()))
    assert found is not None
    return found


def pids_of(run: Path) -> set[int]:
    """All processes of a deployment that run, children included."""
    return {identity.pid for identity in family([record_of(run).token])}


def pid_of(run: Path, name: str) -> int:
    process = record_of(run).find(name)
    assert process is not None
    return process.pid


def flwr(run: Path, *words: str) -> str:
    """What Flower's command line says through the deployment's script."""
    script = run / "deployment/flwr"
    return subprocess.run([script, *words], capture_output=True, text=True, check=True).stdout


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


# Actions of the app, through Flower's own command line

PATIENCE = 420.0
"""Seconds after which a command is taken to hang; no test waits for them when all is well."""


def command_of(run: Path, action: str, app: str = "app", **config: Any) -> list[str]:
    """The command of a user who wants an action done."""
    why = {"by": "case 17", "ground": "GDPR Art. 17"} if action == "forget" else {}
    asked = {"action": action, "reply_deadline": 120.0, "nodes_deadline": 90.0, **why, **config}
    words = " ".join(f"{key.replace('_', '-')}={json.dumps(asked[key])}" for key in asked)
    folder = run / "deployment"
    return [str(folder / "flwr"), "run", str(folder / app), "pfedul", "--stream", "-c", words]


@contextmanager
def begun(run: Path, action: str, **config: Any) -> Iterator[subprocess.Popen[str]]:
    """An action under way; its command does not outlive the block."""
    with subprocess.Popen(
        command_of(run, action, **config),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def act(run: Path, action: str, **config: Any) -> str:
    """Do an action; returns its log."""
    with begun(run, action, **config) as process:
        return finish(process)


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for an action's end; returns its log."""
    log, _ = process.communicate(timeout=PATIENCE)
    return log


def result_in(log: str, action: str) -> dict[str, Any]:
    """The result in the file that an action's log names."""
    found = re.search(rf"{action}: done, the result is (\S+) on the server", log)
    assert found, log
    return json.loads(Path(found[1]).read_text())


def rows(run: Path, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """What the ledger says; nothing where there is none yet."""
    if not (run / "ledger.db").is_file():
        return []
    with closing(sqlite3.connect(f"file:{run / 'ledger.db'}?mode=ro", uri=True)) as database:
        return database.execute(sql, values).fetchall()


def committed(run: Path) -> int:
    """How many rounds the ledger has."""
    return len(rows(run, "SELECT round FROM rounds"))


# What lies where


def shared_of(run: Path) -> str:
    return digest_file(run / "shared.safetensors")


def held_by(run: Path, client: str) -> str:
    """The hash of a client's personal tensors, which its node must hold."""
    sha256 = as_hash(read_file(run / "clients" / client / "held.safetensors"))
    (own,) = node_folder(run, client).rglob(f"{sha256}.safetensors")
    assert digest_file(own) == sha256
    return sha256


def node_folder(run: Path, client: str) -> Path:
    return DeploymentPaths(run).node(client)


def personal_of(run: Path, client: str) -> str:
    """The same of a run whose clients are here."""
    return digest_file(run / "clients" / client / "personal.safetensors")


def lock_is_free(run: Path) -> bool:
    with (run / "lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


# What runs


def programs_of(run: Path, name: str = "") -> dict[int, str]:
    """Pid -> program of all processes of a deployment, or of those that one of its own started."""
    mark = record_of(run).mark(name) if name else record_of(run).token
    return {identity.pid: program_of(identity.pid) for identity in family([mark])}


def program_of(pid: int) -> str:
    """The name of a program that Python runs; empty where the process has just ended."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return Path(words[1]).name if len(words) > 1 else ""
    return ""


def the_server_app(run: Path) -> int:
    (pid,) = [pid for pid, name in programs_of(run, SUPERLINK).items() if name == "flwr-serverapp"]
    return pid


def environment_of(pid: int) -> dict[str, str]:
    parts = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(part.split("=", 1) for part in parts if part)


def listens_on(pid: int) -> set[str]:
    """Addresses on which a process listens, as the kernel writes them."""
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    own = {link[8:-1] for link in links if link.startswith("socket:[")}
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
    ]
    return {line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in own}


LOOPBACK_IN_KERNEL = "0100007F"


def kill(pid: int) -> None:
    """Kill a process, and wait until none of its threads holds a file or a port any more."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: moment(pid) is None and len(list(Path(f"/proc/{pid}/task").glob("*"))) <= 1)


def kill_node(run: Path, name: str) -> None:
    """Kill a node as a power cut would, with all that it has started."""
    for pid in [pid_of(run, name), *programs_of(run, name)]:
        with suppress(ProcessLookupError):
            kill(pid)


def stop_node(run: Path, name: str) -> None:
    """Let a node leave in an orderly way, so the server knows."""
    record = record_of(run)
    process = record.find(name)
    assert process is not None
    end([process], [record.mark(name)])
    until(lambda: node_at_server(run, name).status != control.ONLINE, 90)


def notice_death(run: Path, name: str) -> None:
    """Have the server know at once that a node is dead; by itself it needs a minute."""
    control.sign_off(
        server_of(run), node_at_server(run, name), node_key(DeploymentPaths(run), name)
    )


def server_of(run: Path) -> control.Superlink:
    record = record_of(run)
    return control.Superlink(address(record.host, record.port), DeploymentPaths(run).authority)


def node_at_server(run: Path, name: str) -> control.KnownNode:
    """What the server knows of a client's node."""
    return control.nodes(server_of(run))[public_form(node_key(DeploymentPaths(run), name))]


def bring_down(run: Path) -> None:
    """End everything, whatever state it is in."""
    if (run / "deployment/processes.json").is_file():
        call("down", run)
        assert pids_of(run) == set()
