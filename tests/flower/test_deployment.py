"""`pfedul up` and `pfedul down`, with real processes, on one deployment that the tests share."""

import json
import os
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import httpx
from cryptography import x509

from helpers.flower_deploying import (
    answer,
    call,
    flwr,
    kill,
    pid_of,
    pids_of,
    record_of,
    sentence,
    until,
)
from helpers.toys import create, reopen
from pfedul.errors import PfedulError
from pfedul.flower.deployment.certificates import issue_server_certificate, make_node_key
from pfedul.flower.deployment.control import Superlink, nodes
from pfedul.flower.deployment.down import scrub
from pfedul.flower.deployment.environment import free_port, node_command, process_environment
from pfedul.flower.deployment.layout import (
    DeploymentPaths,
    alone,
    existing_layout,
    new_layout,
    node_names,
)
from pfedul.flower.deployment.processes import (
    MARK,
    DeploymentRecord,
    Process,
    end,
    family,
    is_alive,
    moment,
    start,
    write_record,
)
from pfedul.flower.deployment.up import app_config


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A running deployment with two nodes: its run folder and what `up` said."""
    run = tmp_path_factory.mktemp("deployed") / "run"
    try:
        yield run, answer("up", run, "--nodes", "2")
    finally:
        if (run / "deployment/processes.json").is_file():
            call("down", run)
            assert pids_of(run) == set()


def node_ids(found):
    return {item["name"]: item["node_id"] for item in found["processes"] if item["node_id"]}


def listed(run):
    """Node id -> status, as Flower's own command line tells it."""
    text = flwr(run, "supernode", "list", "--format", "json")
    return {node["node-id"]: node["status"] for node in json.loads(text)["nodes"]}


# One shared deployment; the tests that kill come last


def test_all_nodes_are_online(deployed):
    run, found = deployed
    assert found["started"] == ["superlink", "client-00", "client-01"]
    assert set(node_ids(found)) == {"client-00", "client-01"}
    assert listed(run) == dict.fromkeys(node_ids(found).values(), "online")


def test_secrets_are_private(deployed):
    folder = deployed[0] / "deployment"
    secrets = ["certificates/ca.key", "certificates/server.key", "keys/client-00", "keys/client-01"]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in secrets} == {0o600}
    for private in (folder, folder / "nodes/client-00"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert os.access(folder / "flwr", os.X_OK)


def test_everybody_listens_on_loopback_only(deployed):
    addresses = [item["address"] for item in deployed[1]["processes"]]
    assert all(address.startswith("127.0.0.1:") for address in addresses)
    assert len(set(addresses)) == 3


def test_the_server_speaks_tls_under_its_own_authority(deployed, tmp_path):
    run, found = deployed
    where = found["processes"][0]["address"]
    trusted = ssl.create_default_context(cafile=str(run / "deployment/certificates/ca.pem"))
    assert httpx.get(f"https://{where}/docs", verify=trusted, trust_env=False).status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://{where}/docs", trust_env=False)
    other = DeploymentPaths(tmp_path)
    issue_server_certificate(other, ["localhost"])
    foreign = ssl.create_default_context(cafile=str(other.authority))
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"https://{where}/docs", verify=foreign, trust_env=False)


def test_children_inherit_the_quiet_environment(deployed):
    run, _ = deployed
    pids = pids_of(run)
    assert len(pids) == 6  # each of the three has started a flower-superexec
    homes = set()
    for pid in pids:
        parts = Path(f"/proc/{pid}/environ").read_text().split("\0")
        words = dict(part.split("=", 1) for part in parts if part)
        assert words["FLWR_TELEMETRY_ENABLED"] == "0"
        assert words["FLWR_DISABLE_UPDATE_CHECK"] == "1"
        assert words["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
        assert words["OMP_NUM_THREADS"] == words["MKL_NUM_THREADS"] == "1"
        homes.add(words["FLWR_HOME"])
    assert len(homes) == 3
    assert all(Path(home).is_relative_to(run / "deployment") for home in homes)


def test_a_node_with_an_unknown_key_is_refused(deployed):
    run, found = deployed
    layout, record = DeploymentPaths(run), record_of(run)
    make_node_key(layout, "stranger")
    layout.public_key("stranger").unlink()  # `up` must not take it for one of its own
    command = node_command(layout, record, "stranger", free_port("127.0.0.1"))
    environment = process_environment(layout, "stranger", "stranger/", "127.0.0.1")
    process = start("stranger", command, environment, "", layout.log("stranger"))
    try:
        until(lambda: not is_alive(process))
    finally:
        end([process], ["stranger/"])
    assert "Failed to initialize the connection" in layout.log("stranger").read_text()
    server = Superlink(found["processes"][0]["address"], layout.authority)
    assert {node.name for node in nodes(server).values()} == set(node_ids(found))


def test_up_again_changes_nothing(deployed):
    run, found = deployed
    before = pids_of(run)
    again = answer("up", run)
    assert again["started"] == []
    assert again["processes"] == found["processes"]
    assert pids_of(run) == before
    assert "All of it was running already." in call("up", run, "--nodes", "2").stdout


def test_what_runs_is_not_moved(deployed):
    run, _ = deployed
    assert "pfedul down" in sentence("up", run, "--port", str(free_port("127.0.0.1")))


def test_the_app_holds_every_setting(deployed):
    run, _ = deployed
    words = tomllib.loads((run / "deployment/app/pyproject.toml").read_text())
    app = words["tool"]["flwr"]["app"]
    assert app["config"] == app_config(run, 2)
    assert app["config"]["run"] == str(run)
    assert app["config"]["action"] == "train"
    assert words["project"]["dependencies"] == []


def test_two_commands_do_not_work_at_once(deployed):
    run, _ = deployed
    with alone(DeploymentPaths(run)):
        for command in ("up", "down"):
            words = sentence(command, run)
            assert "open already" in words


def test_a_killed_node_comes_back_as_itself(deployed):
    run, found = deployed
    before = {item["name"]: item["pid"] for item in found["processes"]}
    os.kill(pid_of(run, "client-01"), signal.SIGKILL)
    again = answer("up", run)
    after = {item["name"]: item["pid"] for item in again["processes"]}
    assert again["started"] == ["client-01"]
    assert {name for name in before if before[name] != after[name]} == {"client-01"}
    assert node_ids(again) == node_ids(found)
    assert [item["address"] for item in again["processes"]] == [
        item["address"] for item in found["processes"]
    ]


def test_down_ends_everything_even_when_the_server_was_killed(deployed):
    run, found = deployed
    kill(pid_of(run, "superlink"))
    ended = answer("down", run)
    assert [item["name"] for item in ended["ended"]] == ["client-00", "client-01"]
    assert len(ended["pids"]) >= 4
    assert pids_of(run) == set()
    assert ended["scrubbed"]
    assert "Nothing of" in call("down", run).stdout
    again = answer("up", run)
    assert node_ids(again) == node_ids(found)
    assert again["processes"][0]["address"] == found["processes"][0]["address"]


# Without Flower's processes


def idle(tmp_path, mark, *command):
    environment = {**os.environ, MARK: mark}
    return start("idle", command or ("sleep", "300"), environment, "", tmp_path / "logs/idle.log")


def test_a_foreign_process_with_a_reused_pid_is_left_alone(tmp_path):
    foreign = subprocess.Popen(["sleep", "300"])
    try:
        claimed = Process("client-00", foreign.pid, "another boot/1", ("sleep",), "", "")
        layout = DeploymentPaths(tmp_path / "run")
        write_record(layout, DeploymentRecord("token", "127.0.0.1", 1, None, (claimed,)))
        assert answer("down", layout.run)["pids"] == []
        assert end([claimed], ["token/"]) == []
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_orphans_in_other_sessions_are_ended(tmp_path):
    parent = idle(tmp_path, "orphans/a/", "sh", "-c", "setsid sleep 300 & exec sleep 300")
    try:
        until(lambda: len(family(["orphans/a/"])) == 2)
        os.kill(parent.pid, signal.SIGKILL)
        until(lambda: not is_alive(parent))
        assert len(family(["orphans/a/"])) == 1
    finally:
        end([parent], ["orphans/a/"])
    assert family(["orphans/"]) == []


def test_a_mark_is_not_taken_for_a_longer_one(tmp_path):
    process = idle(tmp_path, "marks/client-01/")
    try:
        assert end([], ["marks/client-0/"]) == []
        assert is_alive(process)
    finally:
        assert [identity.pid for identity in end([process], [])] == [process.pid]
    assert not is_alive(process)


def test_what_does_not_listen_is_killed(tmp_path):
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)"
    process = idle(tmp_path, "stubborn/", "python3", "-c", stubborn)
    assert moment(process.pid) == process.started
    try:
        until(lambda: _ignores_term(process.pid))
    finally:
        end([process], [], grace=0.2)
    assert not is_alive(process)


def _ignores_term(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1


def test_a_taken_port_is_a_sentence(tmp_path):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"127.0.0.1:{port}" in sentence("up", tmp_path / "run", "--port", port)


def test_a_server_that_cannot_start_leaves_nothing_running(tmp_path):
    run = tmp_path / "run"
    layout = DeploymentPaths(run)
    layout.database.parent.mkdir(parents=True)
    layout.database.write_bytes(b"this is no database " * 10)
    port = free_port("127.0.0.1")
    write_record(layout, DeploymentRecord("token", "127.0.0.1", port, None))
    words = sentence("up", run, "--nodes", "1")
    assert "superlink ended while it started" in words
    assert "logs/superlink.log, which ends with: " in words
    assert pids_of(run) == set()


def test_a_deadline_is_kept(tmp_path):
    run = tmp_path / "run"
    assert "not ready in time" in sentence("up", run, "--nodes", "1", "--deadline", "0.1")
    assert pids_of(run) == set()


def test_places_that_cannot_hold_a_deployment(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    assert "is a file" in sentence("up", file)
    assert "not empty and not a run" in sentence("up", tmp_path)
    assert "There is no deployment" in sentence("down", tmp_path)


def test_names_of_nodes(tmp_path):
    layout = DeploymentPaths(tmp_path / "run")
    assert node_names(layout, None, ()) == ["client-00", "client-01", "client-02"]
    assert node_names(layout, 1, ()) == ["client-00"]
    assert node_names(layout, None, ("b", "a", "b")) == ["b", "a"]
    make_node_key(layout, "ward-3")
    assert node_names(layout, None, ()) == ["ward-3"]
    for clients in (["../up"], ["superlink"], ["a", "A"]):
        with pytest.raises(PfedulError):
            node_names(layout, None, clients)
    with pytest.raises(PfedulError, match="either"):
        node_names(layout, 2, ["a"])


def test_names_of_nodes_come_from_the_run(tmp_path):
    layout = DeploymentPaths(tmp_path / "run")
    with create(layout.run) as federation:
        active = sorted(federation.clients)
        federation.train()
    assert node_names(layout, None, ()) == active
    assert node_names(layout, len(active), ()) == active
    with pytest.raises(PfedulError, match="active clients"):
        node_names(layout, len(active) + 1, ())
    for client in [*active, "newcomer"]:
        make_node_key(layout, client)
    with reopen(layout.run) as federation:
        federation.forget(active[0])
    assert node_names(layout, None, ()) == sorted([*active[1:], "newcomer"])
    file_erasure(layout.run, active[0])
    assert node_names(layout, None, ()) == sorted([*active, "newcomer"])


def file_erasure(run, client):
    """As if the client's node had been away when it was to erase its folder."""
    with closing(sqlite3.connect(run / "ledger.db")) as ledger, ledger:
        ledger.execute(
            "INSERT INTO erasures (request, target, node_key, asked_at) VALUES (1, ?, 'k', 'now')",
            (client,),
        )


def test_the_certificate_names_the_host(tmp_path):
    layout = DeploymentPaths(tmp_path)
    issue_server_certificate(layout, ["localhost", "127.0.0.1", "fl.example.org", "10.0.0.5"])
    authority = layout.authority.read_bytes()
    certificate = x509.load_pem_x509_certificate(layout.server_certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "fl.example.org"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1", "10.0.0.5"]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    issue_server_certificate(layout, ["localhost"])
    assert layout.authority.read_bytes() == authority


def test_the_node_is_told_who_it_is(tmp_path):
    from flwr.common.config import parse_config_args

    layout = DeploymentPaths(tmp_path / "a run")
    record = DeploymentRecord("token", "0.0.0.0", 9000, "/data/ward 3")
    command = node_command(layout, record, "client-00", 9001)
    assert command[command.index("--superlink") + 1] == "127.0.0.1:9000"
    assert parse_config_args([command[command.index("--node-config") + 1]]) == {
        "client": "client-00",
        "folder": f"{tmp_path}/a run/deployment/nodes/client-00",
        "key": f"{tmp_path}/a run/deployment/keys/client-00",
        "data-root": "/data/ward 3",
    }
    with pytest.raises(PfedulError, match="quotes"):
        node_command(layout, replace(record, data_root="a'b\"c"), "client-00", 9001)


def test_deleted_messages_leave_the_database(tmp_path):
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as server:
        server.execute("PRAGMA journal_mode = WAL")
        server.execute("CREATE TABLE objects (content BLOB)")
        server.execute("INSERT INTO objects VALUES (?)", (b"secret" * 5000,))
        server.execute("DELETE FROM objects")
        assert any(b"secret" in file.read_bytes() for file in tmp_path.iterdir())
        assert scrub(path)  # even while the server has it open
        assert not any(b"secret" in file.read_bytes() for file in tmp_path.iterdir())
    path.write_bytes(b"this is no database " * 10)
    assert not scrub(path)


@pytest.mark.parametrize("name", ["deployment", "deployment/lock", "deployment/superlink"])
def test_no_link_inside_a_deployment_is_followed(name, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/note.txt").write_text("a thought")
    link = tmp_path / "run" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "home" / ("note.txt" if name.endswith("lock") else ""))
    for look in (new_layout, existing_layout):
        with pytest.raises(PfedulError, match="is a symbolic link"):
            look(tmp_path / "run")
    assert (tmp_path / "home/note.txt").read_text() == "a thought"
