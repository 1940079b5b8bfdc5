"""Whether a server is reachable from other machines, which users must want in so many words.

Flower's open distribution has no authentication for its command line, which uses the same port
as the nodes: who reaches the port can run code on the server and on every node.
"""

from __future__ import annotations

import ipaddress

from pfedul.errors import PfedulError
from pfedul.flower.deployment.environment import LOOPBACK

MEANING = "everybody who can reach it can run code on the server and on every node"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens there.

    >>> [is_loopback(host) for host in ("127.0.0.3", "::1", "localhost", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listening_host(wanted: str | None, before: str | None, *, expose: bool) -> str:
    """Where the server is to listen: `wanted`, or where it did before, or on loopback.

    `before` is from a file of the run folder, which may come from somebody else.
    """
    host = wanted or before or LOOPBACK
    if is_loopback(host):
        return host
    if wanted is None:
        raise PfedulError(
            f"The last deployment listened on {host}, beyond this machine; say again where it is "
            f"to listen: --host {LOOPBACK}, or --host {host} --expose."
        )
    if not expose:
        raise PfedulError(
            f"A server on {host} is open to other machines, and {MEANING} (docs/deploy.md); "
            "leave --host out, or add --expose if you want that."
        )
    return host
