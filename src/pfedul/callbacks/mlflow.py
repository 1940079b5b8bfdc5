"""Figures for MLflow: `pip install 'pfedul[mlflow]'`."""

from __future__ import annotations

from collections.abc import Mapping

from pfedul.base.extras import needed
from pfedul.callbacks.tracker import Tracker


class MLflow(Tracker):
    """Logs into the active run of MLflow, which is begun if there is none.

    Begin one yourself, with `mlflow.start_run`, to choose its name and to end it.
    """

    def __init__(self, *, clients: bool = False) -> None:
        super().__init__(clients=clients)
        self._mlflow = needed("mlflow", "MLflow", "pfedul[mlflow]")

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._mlflow.log_metrics(dict(figures), step=step)
