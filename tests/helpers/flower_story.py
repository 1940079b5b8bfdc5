"""The small federation that the deployments of the tests train, and its twin in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pfedul import Federation
from pfedul.run.training import play_round

SMALL: dict[str, Any] = {
    "data": "digits",
    "samples": 300,
    "model": "mlp:hidden=8",
    "personalization": "fedper",
    "local_epochs": 1,
    "lr": 0.1,
    "evaluate_every": 0,
}

STRONG: dict[str, Any] = {"correction": "trust-region:clip=0.3", "layers": "all"}
"""A correction that moves the shared tensors enough for recalibration to matter."""


def twin(run: Path, clients: int = 3, **settings: Any) -> Federation:
    """The same federation with its clients in this process."""
    return Federation.create(run, clients=clients, engine="inline", **{**SMALL, **settings})


def play(federation: Federation, *clients: str) -> None:
    """A round in which only these clients' replies count."""
    play_round(federation, clients)
    federation.store.commit()
