"""How results look in a terminal. Results go to stdout, progress to stderr."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from pfedul.base.text import human_bytes
from pfedul.evaluation import Evaluation
from pfedul.evaluation import evaluation_data as evaluation_data
from pfedul.federation import Progress

WIDTH_OF_FILES = 120


for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):  # a terminal that cannot show a bar shows a mark
        stream.reconfigure(errors="replace")


console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_OF_FILES)

error_console = Console(stderr=True, highlight=False)


SECONDS_BETWEEN_LINES = 2.0


_BLOCKS = "▁▂▃▄▅▆▇█"


def line(text: str) -> None:
    """A line of results; long ones are left to the terminal to wrap."""
    console.print(text, soft_wrap=True, markup=False)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner on stderr, where that is a terminal."""
    with error_console.status(f"{what} …"):
        yield


class TrainingBar:
    """Shows training progress; callable as `Federation.train(progress=...)` wants it.

    Where stderr is no terminal (a log file), it writes a line now and then instead of a bar.
    """

    def __init__(self, bar: Bar, plain: bool) -> None:
        self._bar = bar
        self._plain = plain
        self._task = bar.add_task("training", total=None, figures="")
        self._figures = ""
        self._last_line = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if progress.loss is not None:
            self._figures = f"loss {progress.loss:.3f}"
        if progress.accuracy is not None:
            self._figures += f"  accuracy {progress.accuracy:.1%}"
        self._draw(progress)
        if self._plain and time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            error_console.print(f"round {progress.round}/{progress.rounds}  {self._figures}")
            self._last_line = time.monotonic()

    def _draw(self, progress: Progress) -> None:
        done = (progress.round - 1) * progress.clients + progress.replies
        self._bar.update(
            self._task,
            completed=done,
            total=progress.rounds * progress.clients,
            description=f"round {progress.round}/{progress.rounds}",
            figures=self._figures,
        )

    def stop(self) -> None:
        self._bar.stop()


@contextmanager
def training_bar() -> Iterator[TrainingBar]:
    """A bar over all client replies of all rounds, with the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    plain = not error_console.is_terminal
    with Bar(*columns, console=error_console, disable=plain) as bar:
        yield TrainingBar(bar, plain)


def trained(found: dict[str, Any], before: int) -> None:
    """One line after training."""
    rounds = found["rounds"]
    if rounds == before:
        line(f"Nothing to do: {found['run']} already has {rounds} rounds.")
        return
    accuracy = found["accuracy"][-1] if found["accuracy"] else None
    words = f", mean accuracy {accuracy['mean']:.1%}" if accuracy else ""
    line(
        f"Trained rounds {before + 1} to {rounds} of {found['run']}{words}. "
        f"Next: pfedul evaluate {found['run']}"
    )


def status(found: dict[str, Any]) -> None:
    """The state of a run, for people."""
    active = [client for client in found["clients"] if client["status"] == "active"]
    choices = ", ".join(found[key] for key in ("personalization", "data", "model"))
    line(f"{found['run']}  {choices}")
    line(f"rounds    {found['rounds']} of {found['rounds_asked']}")
    line(f"clients   {len(active)}, {sum(c['train_samples'] for c in active)} training samples")
    _print_curve("accuracy", [point["mean"] for point in found["accuracy"]], "{:.1%}")
    _print_accuracy_now(found)
    _print_curve("loss", [point["loss"] for point in found["loss"]], "{:.3f}")
    _print_cost(found["cost"])
    sizes = (f"{part} {human_bytes(size)}" for part, size in found["bytes"].items() if size)
    line(f"folder    {', '.join(sizes)}")
    if len(found["records"]) > 1:
        kinds = (f"{name} {human_bytes(of['bytes'])}" for name, of in found["records"].items())
        line(f"records   {', '.join(kinds)}")
    for request in found["requests"]:
        _print_request(request)
    for item in found["audits"]:
        of = ", ".join(item["targets"])
        line(f"{item['kind']:<9} {item['audit']}: of {of}, {item['made_at']}: {item['verdict']}")
    _print_nodes(found)
    _print_refused(found["refused"])


def _print_curve(name: str, values: list[float], form: str) -> None:
    if values:
        first, last = form.format(values[0]), form.format(values[-1])
        line(f"{name:<9} {first} {sparkline(values)} {last}")


def _print_accuracy_now(found: dict[str, Any]) -> None:
    """Where the curve ends with other tensors than those of now, as after a removal."""
    now = found["accuracy_now"]
    if now is None and found["accuracy"]:
        line(f"          not known of the tensors as they are; 'pfedul evaluate {found['run']}'")
    elif now is not None and now["source"] == "removal":
        line(f"          now {now['mean']:.1%}, the lowest {now['worst']:.1%}")


def _print_cost(cost: dict[str, float | None]) -> None:
    if cost["commit_share"] is not None:
        line(
            f"time      {cost['round_seconds']:.1f} s in rounds "
            f"({cost['client_cpu_seconds']:.1f} s of client CPU time), "
            f"{cost['commit_seconds']:.2f} s committing ({cost['commit_share']:.1%}), "
            f"{cost['record_seconds']:.2f} s recording ({cost['record_share']:.1%} of round time)"
        )


def _print_request(request: dict[str, Any]) -> None:
    targets = ", ".join(request["targets"])
    words = f"request   {request['request']}: forget {targets}, {request['status']}"
    if request["not_recalibrated"]:
        words += f"; not recalibrated yet: {', '.join(request['not_recalibrated'])}"
    line(words)
    for target, state in request["erased_at_client"].items():
        line(f"          {target}: {state}")


def _print_nodes(found: dict[str, Any]) -> None:
    """Messages, strangers and the last action, where clients are on machines of their own."""
    for row in found.get("traffic", ()):
        times = row["tasks"]
        out, back = (human_bytes(row[key] / times) for key in ("bytes_out", "bytes_in"))
        line(
            f"messages  {row['action']}, {times} times: {row['messages_out'] / times:.1f} out, "
            f"{row['messages_per_client']:.2f} for each client, with {out} "
            f"({row['out_to_shared']:.2f} x the shared tensors each); {back} back "
            f"({row['in_to_shared']:.2f} x)"
        )
    for row in found.get("strangers", ()):
        line(f"stranger  {row['node_key'][:12]}: {row['reason']}")
    for row in found.get("actions", ())[-1:]:
        line(
            f"action    {row['action']}, begun {row['started_at']}: {row['result'] or 'not ended'}"
        )


def _print_refused(refused: list[dict[str, Any]]) -> None:
    line(f"refused   {len(refused)} replies" if refused else "refused   none")
    for row in refused[-10:]:
        line(f"  round {row['round']}, {row['client']}: {row['reason']}")


def sparkline(values: list[float], width: int = 40) -> str:
    """A small chart of one character a value, the last `width` of them evenly chosen.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    step = max(1, -(-len(values) // width))
    chosen = values[::-1][::step][::-1]
    low, high = min(chosen), max(chosen)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in chosen)


def evaluation(found: Evaluation) -> None:
    """A table of clients, and the three figures under it."""
    rows = [
        {
            "client": client,
            "accuracy": f"{score.accuracy:.1%}",
            "": "█" * round(20 * score.accuracy),
            "loss": f"{score.loss:.3f}",
            "test samples": str(score.samples),
        }
        for client, score in found.clients.items()
    ]
    table(f"personal models after round {found.round}", rows)
    worst = found.clients[found.worst].accuracy
    line(f"mean {found.mean:.1%}   worst {worst:.1%} ({found.worst})   spread {found.spread:.1%}")


def table(title: str, rows: list[dict[str, str]]) -> None:
    """Rows of text under a title."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE)
    for column in rows[0]:
        grid.add_column(column, overflow="fold", no_wrap=column in {"layer", "client", "name"})
    for row in rows:
        grid.add_row(*map(Text, row.values()))
    console.print(grid)


def choice_rows(choices: Iterable[Any]) -> list[dict[str, str]]:
    """A row for each entry of a registry."""
    return [
        {"name": entry.name, "summary": entry.summary, "options": options_text(entry.options)}
        for entry in choices
    ]


def dataset_rows(choices: Iterable[Any]) -> list[dict[str, str]]:
    """Data sets also say which files they read and who publishes them."""
    return [
        {**row, "files": entry.files, "published": entry.published}
        for entry, row in zip(choices, choice_rows(choices), strict=True)
    ]


def personalization_rows(choices: Iterable[Any]) -> list[dict[str, str]]:
    """Personalisations say what is shared, what is personal and how clients train."""
    return [
        {
            "name": entry.name,
            "shared": entry.shared,
            "personal": entry.personal,
            "local_training": entry.local_training,
            "recalibration": entry.recalibration,
            "options": options_text(entry.options),
            "paper": entry.paper,
        }
        for entry in choices
    ]


def options_text(options: type[Any]) -> str:
    """Option names with their defaults.

    >>> from pfedul.personalization.ditto import DittoOptions
    >>> options_text(DittoOptions)
    'lam=0.1'
    """
    parts = []
    for spec in fields(options):
        value = spec.default
        if isinstance(value, tuple):
            value = "+".join(map(str, value))
        shown = "" if value is None or not isinstance(value, int | float | str) else f"={value}"
        parts.append(spec.name + shown)
    return ", ".join(parts)
