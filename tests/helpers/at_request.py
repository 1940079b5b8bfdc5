"""A request as a method sees it, without forgetting anybody."""

from __future__ import annotations

from pfedul import Federation
from pfedul.store.requests import PENDING, Request
from pfedul.unlearn.context import Context
from pfedul.unlearn.methods import client_work
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.removal import Removal, context_of
from pfedul.unlearn.stage import Stages
from pfedul.unlearn.witness import Watch


def context_on(federation: Federation, *targets: str) -> Context:
    request = Request(1, targets, {}, "", PENDING, None)
    return context_of(Removal(federation, request, ForgetOptions(), (), Watch(Stages(federation))))


def replace_work(monkeypatch, name, wrap):
    """Let federations that are opened from now on have another client function of that name."""
    work = {**client_work(), name: wrap(client_work()[name])}
    monkeypatch.setattr("pfedul.federation.client_work", lambda: work)
