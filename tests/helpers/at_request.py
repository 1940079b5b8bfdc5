"""A request as a method sees it, without forgetting anybody."""

from __future__ import annotations

from pfedul import Federation
from pfedul.store.requests import PENDING, Request
from pfedul.unlearn.context import Work
from pfedul.unlearn.options import ForgetOptions
from pfedul.unlearn.outcome import Costs
from pfedul.unlearn.removal import Removal, work_of


def work_on(federation: Federation, *targets: str) -> Work:
    request = Request(1, targets, {}, "", PENDING, 0, None)
    return work_of(
        Removal(federation, request, ForgetOptions(), (), Costs(), lambda _s, _d, _o: None)
    )
