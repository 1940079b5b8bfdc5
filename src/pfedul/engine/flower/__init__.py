"""Engines that reach clients through Flower, which is an extra.

Importing this package needs no Flower; its modules do.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from pfedul.errors import PfedulError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Nothing phones home, nothing is installed at run time."""


def require_flower(*, simulation: bool = False) -> None:
    """A sentence where Flower (or Ray, for simulation) is not installed."""
    os.environ.update(QUIET)  # before flwr is imported: it reads some of them at import
    if find_spec("flwr") is None or (simulation and find_spec("ray") is None):
        extra = "flower-simulation" if simulation else "flower"
        raise PfedulError(f"This needs Flower; install it with: pip install 'pfedul[{extra}]'.")
