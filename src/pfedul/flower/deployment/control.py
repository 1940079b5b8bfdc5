"""Lists and registers nodes at the server, through Flower's control API.

The only module that imports private modules of Flower (tests/test_dependencies.py). Its public ones
have no function that lists, registers or signs off nodes; its command line lists and registers, but
needs a configuration of its own and cannot sign off a node that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

ONLINE = "online"
UNREGISTERED = "unregistered"

NoAnswer = httpx.HTTPError
"""What the functions below raise when the server does not answer, or refuses."""


@dataclass(frozen=True)
class KnownNode:
    """A node as the server knows it."""

    id: int
    name: str
    status: str


@dataclass(frozen=True)
class Superlink:
    """Where the server is, and who vouches for it."""

    address: str
    authority: Path


def nodes(server: Superlink) -> dict[bytes, KnownNode]:
    """All nodes that were ever registered, by their public keys."""
    with _client(ControlHttpClient, server) as client:
        found = client.ListNodes(ListNodesRequest()).nodes_info
    return {item.public_key: KnownNode(item.node_id, item.name, item.status) for item in found}


def register(server: Superlink, public_key: bytes, name: str) -> None:
    """Let the node with this key in."""
    with _client(ControlHttpClient, server) as client:
        client.RegisterNode(RegisterNodeRequest(public_key=public_key, name=name))


def sign_off(server: Superlink, node: KnownNode, key: ec.EllipticCurvePrivateKey) -> None:
    """Say in a node's name that it is offline.

    A node that was killed counts as online for another minute, and as long as it
    does the server refuses to let it come back.
    """
    with _client(FleetHttpClient, server, NodeAuthHttpInterceptor(key, key.public_key())) as client:
        client.DeactivateNode(DeactivateNodeRequest(node_id=node.id))


@contextmanager
def _client(kind: Any, server: Superlink, *interceptors: object) -> Iterator[Any]:
    with _past_proxies():
        authority = server.authority.read_bytes()
        client = kind.from_server_address(server.address, False, authority, interceptors)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _past_proxies() -> Iterator[None]:
    """The server is on this machine; the client reads the environment when it is made."""
    before = os.environ.get("NO_PROXY")
    os.environ["NO_PROXY"] = "*"
    try:
        yield
    finally:
        if before is None:
            del os.environ["NO_PROXY"]
        else:
            os.environ["NO_PROXY"] = before
