"""The server's side on Flower: one run of the app does one action on the run folder.

`flwr run APP -c 'action="forget" client="ID"'` starts it at the superlink. It
opens the run folder, does what the command line would do, and closes it;
what happened is in the ledger, under `actions`.

Flower keeps what is logged in its own database, which no removal reaches. So figures of clients
are never logged: the result of an action is a file in `RUN/reports`, which a removal erases.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pfedul.data.checks import check_ids
from pfedul.errors import PfedulError
from pfedul.federation import Federation
from pfedul.flower.app_config import AppOptions, read_config
from pfedul.flower.asking import asking_of
from pfedul.flower.deployment.down import scrub
from pfedul.flower.deployment.gone import remove_gone_keys
from pfedul.flower.deployment.layout import PRIVATE, DeploymentPaths, write
from pfedul.flower.identity import FlowerServer, Introduced, confirm_erasures, meet_strangers
from pfedul.flower.remote import open_or_create, wait_for_nodes
from pfedul.run.admission import admit
from pfedul.run.assembly import ModelFactory
from pfedul.run.callbacks import Callback, Progress
from pfedul.server.round import TooFewReplies
from pfedul.status import read_status
from pfedul.store.nodes import begin_action, binding_rows, end_action
from pfedul.store.paths import REPORTS, check_tree, inside
from pfedul.store.requests import NOT_CONFIRMED, read_request
from pfedul.unlearn.outcome import read_outcome

_LOG = logging.getLogger("flwr")


def server_app(model: ModelFactory | None = None) -> ServerApp:
    """A Flower ServerApp that keeps a federation in a run folder.

    `model`: a function without arguments that returns the model of the clients, where
    they bring their own; without it the settings name the model.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        _LOG.addFilter(one_sentence)
        options, asked = read_config(context.run_config)
        run_action(FlowerServer(grid, options, model, _LOG.info), asked)

    return app


def one_sentence(record: logging.LogRecord) -> bool:
    """A user's mistake is one sentence in the log, without a trace of our code."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, PfedulError):
        record.msg, record.args, record.exc_info = _result_of(error), (), None
    return True


def run_action(server: FlowerServer, asked: dict[str, Any]) -> dict[str, Any]:
    """Do and note in the ledger what is asked for; returns what the command line prints as JSON."""
    options = server.options
    if options.action == "status":
        server.tell(f"status: see 'pfedul status {options.path}' on the server.")
        return read_status(options.path)
    settings = asked if options.action == "train" else {}
    with open_or_create(server, settings) as federation:
        ledger = federation.store.ledger
        number = begin_action(ledger, options.action)
        try:
            result = _act(server, federation, asked)
        except BaseException as error:
            end_action(ledger, number, _result_of(error))
            raise
        end_action(ledger, number, "done")
        _write_result(server, result)
        return result


def _write_result(server: FlowerServer, result: dict[str, Any]) -> None:
    """While the run is locked: no result about a removed client may appear after its removal."""
    place = inside(server.options.path, f"{REPORTS}/{server.options.action}.json")
    write(place, f"{json.dumps(result, indent=2)}\n".encode(), PRIVATE)
    server.tell(f"{server.options.action}: done, the result is {place} on the server.")


def _result_of(error: BaseException) -> str:
    """What is kept of how an action ended; what a client said is in `refusals`, to be erased."""
    if isinstance(error, TooFewReplies):
        return f"Round {error.number} was not committed: too few usable replies."
    return str(error) if isinstance(error, PfedulError) else type(error).__name__


def _act(server: FlowerServer, federation: Federation, asked: dict[str, Any]) -> dict[str, Any]:
    """Meet new nodes, confirm erasures, recalibrate late clients; then do the action."""
    missing = wait_for_nodes(server, federation)
    if missing:
        server.tell(f"Not connected: {', '.join(missing)}.")
    newcomers = meet_strangers(server, federation)
    confirm_erasures(server, federation)
    options = server.options
    if options.action == "admit":
        return _admit(federation, options, newcomers)
    if options.action == "inspect":
        return federation.plan(*options.clients, **asked).as_json()
    done = federation.recalibrate()
    if done:
        server.tell(f"Recalibrated after their absence: {', '.join(done)}.")
    if options.action == "recalibrate":
        return {"recalibrated": done}
    if options.action == "forget":
        return _forget(server, federation, asked)
    if options.action == "evaluate":
        return federation.evaluate().as_json()
    federation.train(asked.get("rounds"), [_Told(server)])
    return read_status(options.path)


class _Told(Callback):
    """A line of the log for each round."""

    def __init__(self, server: FlowerServer) -> None:
        self._server = server

    def on_round(self, progress: Progress) -> None:
        replies = f"{progress.replies} of {progress.clients} replies"
        self._server.tell(f"round {progress.round}/{progress.rounds}: {replies}")


def _forget(server: FlowerServer, federation: Federation, asked: dict[str, Any]) -> dict[str, Any]:
    """Finish the server's side first; then the target's own folder, if it can be reached."""
    layout = DeploymentPaths(server.options.path)
    check_tree(layout.folder)
    ledger, options = federation.store.ledger, server.options
    asking = asking_of(ledger, options.clients, asked, options.signed_request)
    outcome = federation.forget(*asking.clients, **{**asked, **asking.kept()})
    confirm_erasures(server, federation)
    if not scrub(layout.database, logs=True):
        server.tell("Flower's database may still hold deleted messages; 'pfedul down' clears it.")
    for client in remove_gone_keys(layout):
        server.tell(f"The key of {client}'s node is removed; 'pfedul down' removes its folders.")
    found = read_outcome(ledger, read_request(ledger, outcome.request))
    for target, state in found.erased_at_client.items():
        if state == NOT_CONFIRMED:
            server.tell(f"{target}: {NOT_CONFIRMED}; it is asked again when it is back.")
    return found.as_json()


def _admit(
    federation: Federation, options: AppOptions, newcomers: Sequence[Introduced]
) -> dict[str, Any]:
    """Let nodes join that are connected and claim a free name."""
    if not options.clients:
        raise PfedulError('Say who joins: -c \'action="admit" client="ID"\'.')
    check_ids([*federation.clients, *options.clients])
    for client in options.clients:
        found = [node for node in newcomers if node.member.client == client]
        if len(found) > 1:
            raise PfedulError(f"{len(found)} nodes claim to be '{client}'; stop all but one.")
        if not found and client not in federation.clients:
            waiting = ", ".join(sorted({node.member.client for node in newcomers})) or "nobody"
            raise PfedulError(f"No new node claims to be '{client}'; waiting: {waiting}.")
        member, key = (found[0].member, found[0].key) if found else (None, "")
        admit(federation, client, options.again, member, binding_rows(client, key))
    return {"admitted": options.clients, "joined_round": federation.rounds}
