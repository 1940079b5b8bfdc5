"""The client's side on Flower: handlers that call the same functions as local engines.

A client is one function that returns its model, its training data and its test
data. Personal tensors stay in the client's own folder, which the node config
names; nothing is kept in Flower's context, which no restart survives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import nn

from pfedul.client import perform, scratch_of
from pfedul.data.samples import FederatedData, fingerprint
from pfedul.engine.flower.wire import Handler, NodeOrder, app_of, open_order, pack_reply, pack_words
from pfedul.errors import PfedulError
from pfedul.flower.held import erase, keep_only, own_folder, read_held, write_held
from pfedul.flower.policy import check_order, policy_of
from pfedul.flower.signing import RECEIPT, read_node_key, signed
from pfedul.protocol import Reply, Workbench, split_extra
from pfedul.run.assembly import assemble, input_shape, load_data, own_data
from pfedul.run.layouts import check_same_tensors
from pfedul.run.owncode import code_in
from pfedul.settings import OWN, Settings
from pfedul.store.tables import member_of
from pfedul.unlearn.methods import client_work

MAKES_PERSONAL = {"fit", "recalibrate"}
"""Tasks that end with new personal tensors."""


@dataclass(frozen=True)
class Node:
    """What a client's machine says of itself, from `--node-config` of its supernode."""

    client: str
    folder: Path
    config: Mapping[str, Any]


Load = Callable[[Node], tuple[nn.Module, Any, Any]]
"""A client: its model, its training data and its test data."""


def client_app(load: Load | None = None) -> ClientApp:
    """A Flower ClientApp for a client that `load` describes.

    `load(node)` returns (model, train, test), each part of the data a pair of
    arrays or a map-style Dataset. Without it the client's share of the data set
    that the server's settings name is used.
    """

    def handler(action: str) -> Handler:
        def handle(message: Message, context: Context) -> Message:
            content = answer(action, message.content, context.node_config, load)
            return Message(content, reply_to=message)

        return handle

    return app_of(handler)


def answer(
    action: str, content: RecordDict, node_config: Mapping[str, Any], load: Load | None
) -> RecordDict:
    """The content of the reply; what goes wrong is said in it."""
    client = str(node_config.get("client", ""))
    try:
        node, order = node_of(node_config), open_order(content)
        own_data, policy = load is not None, policy_of(node_config)
        check_order(policy, node.client, action, order, own_data=own_data)
        if action == "hello":
            return pack_words("hello", introduce(node, order, load))
        if order.client != node.client:
            raise PfedulError(f"this node is {node.client} and was asked as {order.client}")
        if action == "erase":
            return pack_words("erase", _receipt(node, order.federation))
        return pack_reply(carry_out(node, order, load))
    except Exception as error:
        logging.getLogger("flwr").exception("The work for %s failed", client)
        words = str(error) if isinstance(error, PfedulError) else f"{type(error).__name__}: {error}"
        if action in {"hello", "erase"}:
            return pack_words(action, {"client": client, "failure": words})
        return pack_reply(Reply(client, 0, failure=words))


def _receipt(node: Node, federation: str) -> dict[str, Any]:
    """Erase this client's folder; the receipt is signed if the node config names the node's key."""
    receipt, key = erase(node.folder, federation, node.client), node.config.get("key")
    if key is None:
        return receipt
    return signed(RECEIPT, receipt, read_node_key(Path(str(key)).expanduser()))


def node_of(config: Mapping[str, Any]) -> Node:
    """The node that this process runs on."""
    if not config.get("client") or not config.get("folder"):
        raise PfedulError(
            "the node config must name the client and its folder: "
            '--node-config \'client="ID" folder="/absolute/path"\''
        )
    folder = Path(str(config["folder"])).expanduser()
    if not folder.is_absolute():
        raise PfedulError(f"the folder '{folder}' of the node config must be an absolute path")
    return Node(str(config["client"]), folder, dict(config))


def introduce(node: Node, order: NodeOrder, load: Load | None) -> dict[str, Any]:
    """Who this node is, and what the server must know of its data."""
    _, data = _model_and_data(node, Settings(**order.settings), load)
    own = data.clients[node.client]
    return {
        **asdict(member_of(node.client, own)),
        "shape": list(input_shape(data)),
        "classes": data.classes,
    }


def carry_out(node: Node, order: NodeOrder, load: Load | None) -> Reply:
    """Do what is asked for, with the personal tensors that the order names."""
    bench = _bench(node, Settings(**order.settings), load)
    if order.data_sha256 not in {None, fingerprint(bench.data[node.client])}:
        raise PfedulError("its data are not those with which it joined")
    scratch = scratch_of(bench)
    state = scratch.model.state_dict()
    own, _ = split_extra(order.shared)
    check_same_tensors(own, {name: state[name] for name in bench.split.shared})
    folder = own_folder(node.folder, order.federation, node.client)
    personal = order.personal if order.base is None else read_held(folder, order.base)
    reply = perform(bench, scratch, order.task, node.client, order.shared, personal)
    if order.task.action in MAKES_PERSONAL and bench.split.personal:
        keep_only(folder, order.base)
        reply = replace(reply, personal={}, held=write_held(folder, reply.personal))
    return reply


def _bench(node: Node, settings: Settings, load: Load | None) -> Workbench:
    settings = replace(settings, device=str(node.config.get("device", "cpu")))
    model, data = _model_and_data(node, settings, load)
    if model is None:
        bench = assemble(settings, data, None)
    else:
        bench = assemble(replace(settings, model=OWN), data, lambda: model)
    return replace(bench, work=client_work())


def _model_and_data(
    node: Node, settings: Settings, load: Load | None
) -> tuple[nn.Module | None, FederatedData]:
    """The model is None where the settings name it."""
    if load is not None:
        model, train, test = load(node)
        return model, own_data(settings, {node.client: (train, test)})
    if OWN in {settings.data, settings.model} or code_in(asdict(settings)):
        raise PfedulError("this federation is one of own models or data: use client_app(load=...)")
    root = node.config.get("data-root")
    data = load_data(replace(settings, data_root=None if root is None else str(root)), None)
    if node.client not in data.clients:
        raise PfedulError(
            f"the data set has no client '{node.client}'; it has: {', '.join(data.clients)}"
        )
    return None, replace(data, clients={node.client: data.clients[node.client]})
