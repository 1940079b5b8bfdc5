"""What every test can rely on."""

import os
import signal

import pytest

# Threads of torch and BLAS sleep between tasks. As many test processes as cores, each with as many
# threads that wait busily, cost several times the work. Set before either is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

LONGEST_FIRST = (
    "test_simulation.py",
    "test_compare.py",
    "test_methods_properties.py",
    "test_removal_kills.py",
    "test_deployment.py",
    "test_cli.py",
    "test_audit_rehearsal.py",
    "test_report_page.py",
    "test_hostile.py",
    "test_extending.py",
    "test_audit_examination.py",
    "test_store.py",
)
"""A file goes to one process as a whole: a long one that begins last leaves the others idle."""


def pytest_configure() -> None:
    """Ctrl-C means Ctrl-C: shells start background jobs, and so some test runs, with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _without_syncs():
    """A kill loses nothing that was written; only a power cut would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _with_own_key(tmp_path_factory):
    """No test signs with the key of the user who runs it, or makes one in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        patch.delenv("PFEDUL_KEY", raising=False)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))
