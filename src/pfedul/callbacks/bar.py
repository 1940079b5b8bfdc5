"""Progress bars on stderr; lines where that is no terminal."""

from __future__ import annotations

from rich.progress import TaskID

from pfedul.run.callbacks import Callback, Progress
from pfedul.terminal.console import ProgressLog, progress_bar


class Bar(Callback):
    """A bar over the rounds of training, and one for each stage of other work."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._log = ProgressLog()
        self._bar = progress_bar(disable=self._log.active)
        self._tasks: dict[str, TaskID] = {}
        self._figures = ""

    def on_reply(self, progress: Progress) -> None:
        words = self._training(progress)
        self._log(f"{words}  {progress.replies} of {progress.clients} replies")

    def on_round(self, progress: Progress) -> None:
        accuracy = "" if progress.accuracy is None else f"  accuracy {progress.accuracy:.1%}"
        self._figures = f"loss {progress.loss:.3f}{accuracy}"
        words = self._training(progress)
        self._log(f"{words}  {self._figures}", always=progress.round == progress.rounds)

    def _training(self, progress: Progress) -> str:
        """Show how far it is, with the figures of the last complete round."""
        done = (progress.round - 1) * progress.clients + progress.replies
        words = f"round {progress.round}/{progress.rounds}"
        self._show("training", words, done, progress.rounds * progress.clients, self._figures)
        return words

    def on_stage(self, stage: str, done: int, of: int, now: str = "") -> None:
        new = stage not in self._tasks
        self._show(stage, stage, done, of, now)
        words = f"{stage} ..." if new else f"{stage} {done}/{of}  {now}".rstrip()
        self._log(words, always=new)

    def _show(self, name: str, words: str, done: int, of: int, now: str) -> None:
        self._bar.start()
        if name not in self._tasks:
            self._tasks[name] = self._bar.add_task(words, total=of, now=now)
        self._bar.update(self._tasks[name], completed=done, total=of, description=words, now=now)

    def on_end(self) -> None:
        self._bar.stop()
        self._begin()
