"""Differential privacy of the rounds: who takes part, the noise, and what it amounts to.

Clients know the seed of the settings. So draws that they must not foresee come from a secret of the
run, which is drawn once and kept in its ledger: a resumed run still equals an uninterrupted one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial

from pfedul.aggregation.private import NoisyMean, Privacy
from pfedul.base.randomness import derive_seed
from pfedul.errors import PfedulError
from pfedul.settings import Settings
from pfedul.split import Split
from pfedul.store.ledger import insert
from pfedul.store.store import Store

_SECRET = "dp_secret"
_SEEDS = 2**63
"""How many different seeds `derive_seed` gives."""


def sampled(store: Store, clients: Sequence[str], rate: float, number: int) -> list[str]:
    """The clients of a round: each with the probability `rate`, whatever the others do."""
    secret = _secret(store)
    draws = {c: derive_seed(secret, "private-participation", number, c) for c in clients}
    return [client for client in sorted(clients) if draws[client] < rate * _SEEDS]


def noisy_mean(
    store: Store, settings: Settings, split: Split, clients: int, number: int
) -> partial[NoisyMean]:
    """What begins the aggregate of a round."""
    assert settings.dp_clip is not None
    how = Privacy(settings.dp_clip, settings.dp_noise, settings.participation * clients)
    return partial(NoisyMean, how, derive_seed(_secret(store), "noise", number), split.agreeing)


def _secret(store: Store) -> int:
    known = store.ledger.meta(_SECRET)
    if known is None:
        known = secrets.token_hex(16)
        store.ledger.write([insert("meta", key=_SECRET, value=known)])
    return int(known, 16)


def refuse_statistics(settings: Settings, split: Split) -> None:
    """Shared statistics are no updates of bounded length, and would go out without noise."""
    odd = sorted(set(split.shared) - set(split.parameter_names))
    if settings.dp_clip is not None and odd:
        raise PfedulError(
            f"With --dp-clip nothing is shared that has no bound and no noise, and '{odd[0]}' is a "
            "statistic that this model shares; keep normalisation personal (--personalization "
            "fedbn), or take a model without it (such as mlp, or cnn:norm=none)."
        )
