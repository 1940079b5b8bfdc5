"""Figures for Weights & Biases: `pip install 'pfedul[wandb]'`."""

from __future__ import annotations

from collections.abc import Mapping

from pfedul.base.extras import needed
from pfedul.callbacks.tracker import Tracker


class WandB(Tracker):
    """Logs into the current run of Weights & Biases, which is begun if there is none.

    Begin one yourself, with `wandb.init`, to choose its project, and end it with `wandb.finish`.
    """

    def __init__(self, *, clients: bool = False) -> None:
        super().__init__(clients=clients)
        wandb = needed("wandb", "Weights & Biases", "pfedul[wandb]")
        self._run = wandb.run or wandb.init()
        self._run.define_metric("*", step_metric="round")

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._run.log({"round": step, **figures})
