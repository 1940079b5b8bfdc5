"""What every test can rely on."""

import signal


def pytest_configure() -> None:
    """Ctrl-C means Ctrl-C: shells start background jobs, and so some test runs, with it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
