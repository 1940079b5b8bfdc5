"""What callbacks for experiment trackers have in common: which figures they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pfedul.run.callbacks import Callback, Progress

if TYPE_CHECKING:
    from pfedul.evaluation import Evaluation


class Tracker(Callback):
    """Sends figures of rounds and evaluations somewhere; a subclass says how, in `log`.

    With `clients`, also each client's accuracy. Such figures outlive a removal: `forget` erases
    what is in the run folder, and cannot erase what a tracker has.
    """

    def __init__(self, *, clients: bool = False) -> None:
        self._clients = clients

    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Keep these figures of a round."""
        raise NotImplementedError

    def on_round(self, progress: Progress) -> None:
        assert progress.loss is not None
        self.log({"train/loss": progress.loss, "train/replies": progress.replies}, progress.round)

    def on_evaluation(self, evaluation: Evaluation) -> None:
        figures = {
            "accuracy/mean": evaluation.mean,
            "accuracy/worst": evaluation.clients[evaluation.worst].accuracy,
            "accuracy/spread": evaluation.spread,
        }
        if self._clients:
            own = evaluation.clients.items()
            figures |= {f"accuracy/client/{name}": score.accuracy for name, score in own}
        self.log(figures, evaluation.round)
