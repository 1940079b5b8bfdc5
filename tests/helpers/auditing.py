"""Audits of small federations that the tests share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pfedul import Federation
from pfedul.audit.evidence import measures
from pfedul.audit.evidence import relearning as relearn_time
from pfedul.audit.levels import level_of
from pfedul.audit.rehearsal import Rehearsal
from pfedul.audit.rehearsal import rehearse as do_it
from pfedul.engine.inline import InlineEngine
from pfedul.protocol import Reply, Task
from pfedul.store.audits import Audit
from pfedul.store.ledger import Ledger
from pfedul.unlearn.options import ForgetOptions


def rehearsal(
    federation: Federation,
    *targets: str,
    oracles: int = 2,
    level: str = "quick",
    away: Sequence[str] = (),
    **options: Any,
) -> Rehearsal:
    """A rehearsal that is asked for, nothing done yet."""
    chosen = ForgetOptions(**options)
    return Rehearsal(federation, targets, chosen, tuple(away), level_of(level, oracles))


def rehearse(federation: Federation, *targets: str, on_stage: Any = None, **how: Any) -> Audit:
    """Rehearse the removal of these targets; intervals of further figures are coarse ones."""
    with few_draws():
        return do_it(rehearsal(federation, *targets, **how), on_stage)


@contextmanager
def few_draws() -> Iterator[None]:
    """Figures that no verdict rests on take most of the time of a small audit: fewer draws."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "DRAWS", 10)
        patch.setattr(relearn_time, "MOST_EPOCHS", 3)
        yield


@contextmanager
def counted_tasks() -> Iterator[list[tuple[str, str, int | None]]]:
    """Every task that an inline engine does meanwhile: (action, client, seed)."""
    done: list[tuple[str, str, int | None]] = []
    run = InlineEngine.run

    def counting(
        engine: InlineEngine, task: Task, clients: Sequence[str], *rest: Any
    ) -> Iterator[Any]:
        for reply in run(engine, task, clients, *rest):
            done.append((task.action, reply.client, task.seed))
            yield reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InlineEngine, "run", counting)
        yield done


@contextmanager
def failing(action: str, client: str) -> Iterator[None]:
    """An inline engine gets no answer from this client meanwhile."""
    run = InlineEngine.run

    def losing(engine: InlineEngine, task: Task, *rest: Any) -> Iterator[Reply]:
        for reply in run(engine, task, *rest):
            lost = (task.action, reply.client) == (action, client)
            yield Reply(client, 0, failure="its disk is full") if lost else reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InlineEngine, "run", losing)
        yield


def interrupt_at(stage: str, done: int) -> Any:
    """To be told of stages: Ctrl-C when so much of one is done."""

    def on_stage(name: str, count: int, _of: int) -> None:
        if name == stage and count >= done:
            raise KeyboardInterrupt

    return on_stage


def tables(run: Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of the ledger, by table."""
    ledger = Ledger(run / "ledger.db", read_only=True)
    names = [row["name"] for row in ledger.rows("SELECT name FROM sqlite_master")]
    found = {
        name: ledger.rows(f"SELECT * FROM {name}") for name in names if "autoindex" not in name
    }
    ledger.close()
    return found
