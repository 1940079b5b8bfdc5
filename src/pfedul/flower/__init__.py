"""The same federation across machines, on Flower: the public functions.

    from pfedul.flower import client_app, server_app

`client_app` and `server_app` make a Flower app; docs/flower.md shows one in full.
Flower itself is an extra: `pip install 'pfedul[flower]'`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pfedul.engine.flower import require_flower

if TYPE_CHECKING:
    from pfedul.flower.client import Node as Node
    from pfedul.flower.client import client_app as client_app
    from pfedul.flower.server import server_app as server_app

_HOMES = {"Node": "client", "client_app": "client", "server_app": "server"}


def __getattr__(name: str) -> Any:
    """Import what is asked for: the rest of pfedul must work without Flower."""
    if name not in _HOMES:
        raise AttributeError(name)
    require_flower()
    return getattr(import_module(f"pfedul.flower.{_HOMES[name]}"), name)
