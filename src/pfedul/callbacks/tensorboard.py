"""Figures for TensorBoard: `pip install 'pfedul[tensorboard]'`, then `tensorboard --logdir DIR`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pfedul.base.extras import needed
from pfedul.callbacks.tracker import Tracker


class TensorBoard(Tracker):
    """Writes event files into a folder."""

    def __init__(self, folder: str | Path, *, clients: bool = False) -> None:
        super().__init__(clients=clients)
        module = needed("torch.utils.tensorboard", "TensorBoard", "pfedul[tensorboard]")
        self._writer = module.SummaryWriter(str(folder))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def on_end(self) -> None:
        """Everything is in the file; the next verb goes on in another one of this folder."""
        self._writer.close()
