"""Differential privacy of the rounds: who takes part, the noise, and what it amounts to.

Clients know the seed of the settings. So draws that they must not foresee come from a secret,
computed from the operator's private key and the first entry of the run's chain of evidence. It is
nowhere in the run folder, and a run that the same key resumes still equals an uninterrupted one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from pfedul.aggregation.private import NoisyMean, Privacy
from pfedul.base.hashes import digest
from pfedul.base.keys import operator_key, secret_number
from pfedul.base.randomness import derive_seed
from pfedul.base.tensorfile import encode
from pfedul.base.tensors import Tensors
from pfedul.errors import PfedulError
from pfedul.settings import Settings
from pfedul.split import Split
from pfedul.store.store import Store
from pfedul.store.tables import no_fact

_WRITTEN_SECRET = "dp_secret"
"""Where older versions kept the secret: in the ledger, which others can read."""

_SEEDS = 2**63
"""How many different seeds `derive_seed` gives."""


def sampled(store: Store, clients: Sequence[str], rate: float, number: int) -> list[str]:
    """The clients of a round: each with the probability `rate`, whatever the others do."""
    secret = _secret(store)
    draws = {c: derive_seed(secret, "private-participation", number, c) for c in clients}
    return [client for client in sorted(clients) if draws[client] < rate * _SEEDS]


def noisy_mean(
    store: Store,
    settings: Settings,
    split: Split,
    clients: Collection[str],
    shared: Tensors,
    number: int,
) -> partial[NoisyMean]:
    """What begins the aggregate of a round, whose state before is part of the seed.

    Copies of a run have the same secret. With other clients, or after another round, the noise
    must be another, or the difference of two copies would have none.
    """
    assert settings.dp_clip is not None
    how = Privacy(settings.dp_clip, settings.dp_noise, settings.participation * len(clients))
    before = digest(encode(shared))
    seed = derive_seed(_secret(store), "noise", number, before, *sorted(clients))
    return partial(NoisyMean, how, seed, split.agreeing)


def _secret(store: Store) -> int:
    if store.ledger.meta(_WRITTEN_SECRET) is not None:
        store.ledger.write([no_fact(_WRITTEN_SECRET)])
    return secret_number(operator_key(), f"differential privacy {store.ledger.first_hash}")


def refuse_statistics(settings: Settings, split: Split) -> None:
    """Shared statistics are no updates of bounded length, and would go out without noise."""
    odd = sorted(set(split.shared) - set(split.parameter_names))
    if settings.dp_clip is not None and odd:
        raise PfedulError(
            f"With --dp-clip nothing is shared that has no bound and no noise, and '{odd[0]}' is a "
            "statistic that this model shares; keep normalisation personal (--personalization "
            "fedbn), or take a model without it (such as mlp, or cnn:norm=none)."
        )
