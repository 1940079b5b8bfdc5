"""A server that other machines reach is started only by a user who asked for that."""

import pytest

pytest.importorskip("flwr")

from helpers.flower_deploying import sentence
from pfedul.errors import PfedulError
from pfedul.flower.deployment.exposure import listening_host
from pfedul.flower.deployment.layout import DeploymentPaths
from pfedul.flower.deployment.processes import DeploymentRecord, write_record

OPEN = ["0.0.0.0", "::", "10.0.0.5", "fl.example.org", "--ssl-keyfile", " "]


@pytest.mark.parametrize("host", OPEN)
def test_a_host_that_others_reach_needs_to_be_exposed(host):
    with pytest.raises(
        PfedulError, match=r"can run code on the server and on every node.*--expose"
    ):
        listening_host(host, None, expose=False)
    assert listening_host(host, None, expose=True) == host


@pytest.mark.parametrize("expose", [True, False])
@pytest.mark.parametrize("host", OPEN)
def test_such_a_host_is_never_taken_from_the_folder(host, expose):
    """The folder may be somebody else's: finding H8."""
    with pytest.raises(PfedulError, match="say again where it is to listen"):
        listening_host(None, host, expose=expose)


def test_loopback_is_the_default_and_stays():
    assert listening_host(None, None, expose=False) == "127.0.0.1"
    assert listening_host(None, "127.0.0.3", expose=False) == "127.0.0.3"
    assert listening_host("::1", "10.0.0.5", expose=False) == "::1"
    assert listening_host("10.0.0.5", "127.0.0.1", expose=True) == "10.0.0.5"


def test_up_starts_nothing_then(tmp_path):
    run = tmp_path / "run"
    assert "add --expose if you want that" in sentence("up", run, "--host", "0.0.0.0")
    layout = DeploymentPaths(run)
    assert not layout.record.exists()
    write_record(layout, DeploymentRecord("token", "0.0.0.0", 8000, None))
    assert "--host 0.0.0.0 --expose" in sentence("up", run)
    assert not layout.authority.exists()
