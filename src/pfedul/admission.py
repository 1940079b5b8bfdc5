"""New clients, and old ones who come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pfedul.errors import PfedulError
from pfedul.rows import client_row
from pfedul.store import personal_file
from pfedul.tensors import read_tensors
from pfedul.unlearn.requests import forgotten

if TYPE_CHECKING:
    from pfedul.federation import Federation


def admit(federation: Federation, client: str, again: bool) -> None:
    """See `Federation.admit`."""
    if client in federation.clients:
        raise PfedulError(f"The client '{client}' is part of this run already.")
    gone = forgotten(federation.store.ledger)
    if client in gone and not again:
        raise PfedulError(
            f"The client '{client}' was forgotten (request {gone[client].number}); "
            "to admit it as a new client say so (--again)."
        )
    if client not in federation.known_data:
        known = ", ".join(sorted(set(federation.known_data) - set(federation.clients))) or "nobody"
        raise PfedulError(f"There are no data of a client '{client}'; waiting with data: {known}.")
    _join(federation, client)


def _join(federation: Federation, client: str) -> None:
    store, split = federation.store, federation.bench.split
    if split.personal:
        model = federation.bench.build_model()
        store.stage(personal_file(client), read_tensors(model, split.personal))
    store.keep([client_row(client, federation.known_data[client], federation.rounds)])
    store.commit()
    federation.welcome(client)
