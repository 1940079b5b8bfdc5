"""The learning curve of a run: loss and accuracy over its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pfedul.base.hashes import digest
from pfedul.base.result import Result
from pfedul.report.blocks import Picture
from pfedul.report.plots import percent_tick
from pfedul.report.style import SERIES, on_white
from pfedul.report.svg import render
from pfedul.store.ledger import Ledger
from pfedul.store.status_tables import accuracy_rows, loss_rows

_SIZE = (560, 230)
_LOSS, _MEAN, _WORST = (SERIES[name].colour for name in ("oracle", "candidate", "untouched"))


@dataclass(frozen=True, repr=False)
class History(Result):
    """Round -> training loss; evaluated round -> mean and lowest accuracy of the clients."""

    loss: Mapping[int, float]
    accuracy: Mapping[int, float]
    worst: Mapping[int, float]

    def _facts(self) -> dict[str, Any]:
        return {
            "rounds": max(self.loss, default=0),
            "loss": _last(self.loss),
            "accuracy": _last(self.accuracy),
            "worst": _last(self.worst),
        }

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "round": number,
                "loss": self.loss.get(number),
                "accuracy": self.accuracy.get(number),
                "worst": self.worst.get(number),
            }
            for number in sorted({*self.loss, *self.accuracy})
        ]

    def plot(self, figure: Any = None) -> Any:
        """Draw loss and accuracy side by side with matplotlib; returns the two axes.

        `figure`: an empty figure to draw on, instead of a new one.
        """
        if figure is None:
            from matplotlib import pyplot

            figure = pyplot.figure(figsize=(9, 3.4), layout="constrained")
        return self._draw(figure, {colour: on_white(colour) for colour in (_LOSS, _MEAN, _WORST)})

    def _draw(self, figure: Any, colours: Mapping[str, str]) -> Any:
        left, right = axes = figure.subplots(1, 2)
        _curve(left, self.loss, "loss", colours[_LOSS], "-")
        _curve(right, self.accuracy, "mean", colours[_MEAN], "-")
        _curve(right, self.worst, "lowest client", colours[_WORST], "--")
        left.set_ylabel("training loss")
        right.set_ylabel("accuracy of personal models")
        right.yaxis.set_major_formatter(percent_tick)
        if self.accuracy:
            right.legend(frameon=False)
        for one in axes:
            one.set_xlabel("round")
            one.grid(linewidth=0.8)
            one.xaxis.get_major_locator().set_params(integer=True)
        return axes

    def _picture(self) -> str:
        if not self.loss:
            return ""
        colours = {colour: colour for colour in (_LOSS, _MEAN, _WORST)}
        picture = Picture("Learning curve", repr(self), _SIZE, lambda on: self._draw(on, colours))
        return render(picture, f"h{digest(repr(self._rows()).encode())[:8]}")


def _curve(axes: Any, values: Mapping[int, float], name: str, colour: str, line: str) -> None:
    """A single round is a dot."""
    marker = "o" if len(values) == 1 else ""
    axes.plot([*values], [*values.values()], line, color=colour, marker=marker, label=name)


def _last(values: Mapping[int, float]) -> float | None:
    return values[max(values)] if values else None


def read_history(ledger: Ledger) -> History:
    """The learning curve from the ledger, of the clients that are still in the run."""
    evaluated = accuracy_rows(ledger)
    return History(
        {row["round"]: row["loss"] for row in loss_rows(ledger)},
        {row["round"]: row["mean"] for row in evaluated},
        {row["round"]: row["worst"] for row in evaluated},
    )
