"""New clients, and old ones who come back."""

from __future__ import annotations

from collections.abc import Sequence

from pfedul.errors import PfedulError
from pfedul.run.run import Run
from pfedul.store.ledger import Statement
from pfedul.store.requests import forgotten
from pfedul.store.tables import Member, admission_rows, client_row, member_of


def admit(
    run: Run, client: str, again: bool, member: Member | None = None, also: Sequence[Statement] = ()
) -> None:
    """See `Federation.admit`.

    `member` is given for a client whose data are elsewhere; `also` are further rows of
    the commit.
    """
    if client in run.clients:
        raise PfedulError(f"The client '{client}' is part of this run already.")
    if run.clusters.several:
        raise PfedulError(
            "This run has clusters, which are formed once, so nobody can join it; "
            "start another run with all clients."
        )
    gone = forgotten(run.store.ledger)
    if client in gone and not again:
        raise PfedulError(
            f"The client '{client}' was forgotten (request {gone[client].number}); "
            "to admit it as a new client say so (--again)."
        )
    if member is None and client not in run.known_data:
        known = ", ".join(sorted(set(run.known_data) - set(run.clients))) or "nobody"
        raise PfedulError(f"There are no data of a client '{client}'; waiting with data: {known}.")
    member = member or member_of(client, run.known_data[client])
    run.personal_place.stage_first(client)
    admitted = admission_rows(run.store.ledger, client, run.rounds, again=client in gone)
    run.store.keep([client_row(member, run.rounds), *admitted, *also])
    run.store.commit()
    run.join(member)
