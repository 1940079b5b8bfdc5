"""Requests that are refused before anything is done for them: they stay in the ledger as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pfedul.base.text import without_names
from pfedul.errors import PfedulError, TransientError
from pfedul.run.run import Run
from pfedul.store.requests import refuse_request, unfinished
from pfedul.unlearn.options import ForgetOptions


@contextmanager
def refusals_kept(
    run: Run, targets: Sequence[str], options: ForgetOptions, asked: Mapping[str, Any]
) -> Iterator[None]:
    """Keep a request that the block refuses, if it says who asks and names clients of the run.

    Other names may be anybody's, and without who asks it is the operator's own try. What is only
    not possible now is no refusal.
    """
    try:
        yield
    except TransientError:
        raise
    except PfedulError as error:
        if asked.get("by") and set(targets) <= set(run.clients) and not _is_pending(run, targets):
            others = [client for client in run.clients if client not in targets]
            reason = without_names(str(error), others)
            refuse_request(run.store.ledger, targets, options.as_json(), asked, reason)
        raise


def _is_pending(run: Run, targets: Sequence[str]) -> bool:
    """Whether the same request was begun: it stays as it is."""
    begun = unfinished(run.store.ledger)
    return begun is not None and set(begun.targets) == set(targets)
