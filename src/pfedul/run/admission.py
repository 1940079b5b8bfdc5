"""New clients, and old ones who come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pfedul.errors import PfedulError
from pfedul.store.ledger import Statement
from pfedul.store.requests import forgotten
from pfedul.store.tables import Member, client_row, member_of

if TYPE_CHECKING:
    from pfedul.federation import Federation


def admit(
    federation: Federation,
    client: str,
    again: bool,
    member: Member | None = None,
    also: Sequence[Statement] = (),
) -> None:
    """See `Federation.admit`.

    `member` is given of a client whose data are elsewhere; `also` are further rows of
    the commit.
    """
    if client in federation.clients:
        raise PfedulError(f"The client '{client}' is part of this run already.")
    if federation.clusters.several:
        raise PfedulError(
            "This run has clusters, which are formed once, so that nobody can join it; "
            "start another run with all clients."
        )
    gone = forgotten(federation.store.ledger)
    if client in gone and not again:
        raise PfedulError(
            f"The client '{client}' was forgotten (request {gone[client].number}); "
            "to admit it as a new client say so (--again)."
        )
    if member is None and client not in federation.known_data:
        known = ", ".join(sorted(set(federation.known_data) - set(federation.clients))) or "nobody"
        raise PfedulError(f"There are no data of a client '{client}'; waiting with data: {known}.")
    _join(federation, member or member_of(client, federation.known_data[client]), also)


def _join(federation: Federation, member: Member, also: Sequence[Statement]) -> None:
    store = federation.store
    federation.personal_place.stage_first(member.client)
    store.keep([client_row(member, federation.rounds), *also])
    store.commit()
    federation.welcome(member)
