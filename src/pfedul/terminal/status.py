"""Training, status and evaluation in the terminal."""

from __future__ import annotations

from pfedul.base.text import asked_words, human_bytes
from pfedul.evaluation import Evaluation
from pfedul.report.material import Json
from pfedul.status import privacy_words
from pfedul.store.tables import SHORTENED
from pfedul.tasks.classification import CLASSIFICATION
from pfedul.terminal.console import line, table

_BLOCKS = "▁▂▃▄▅▆▇█"


def print_trained(status: Json, before: int) -> None:
    """One line after training."""
    rounds = status["rounds"]
    if rounds == before:
        line(f"Nothing to do: {status['run']} already has {rounds} rounds.")
        return
    accuracy = status["accuracy"][-1] if status["accuracy"] else None
    words = f", mean accuracy {accuracy['mean']:.1%}" if accuracy else ""
    line(
        f"Trained rounds {before + 1} to {rounds} of {status['run']}{words}. "
        f"Next: pfedul evaluate {status['run']}"
    )


def print_status(status: Json) -> None:
    active = [client for client in status["clients"] if client["status"] == "active"]
    choices = ", ".join(status[key] for key in ("personalization", "data", "model"))
    for sentence in (status["chain"] or {}).get("wrong", ()):
        line(f"WRONG     not as it was signed: {sentence}")
    line(f"{status['run']}  {choices}")
    line(f"rounds    {status['rounds']} of {status['rounds_asked']}")
    line(f"clients   {len(active)}, {sum(c['train_samples'] for c in active)} training samples")
    _print_curve("accuracy", [point["mean"] for point in status["accuracy"]], "{:.1%}")
    _print_accuracy_now(status)
    if status["task"] != CLASSIFICATION.name:
        line(f"          accuracy: the {status['figure']}")
    _print_curve("loss", [point["loss"] for point in status["loss"]], "{:.3f}")
    if status["privacy"]:
        line(f"privacy   {privacy_words(status['privacy'])}")
    _print_cost(status["cost"])
    _print_sizes(status)
    for request in status["requests"]:
        _print_request(request)
    for audit in status["audits"]:
        targets = ", ".join(audit["targets"])
        line(
            f"{audit['kind']:<9} {audit['audit']}: of {targets}, "
            f"{audit['made_at']}: {audit['verdict']}"
        )
    _print_chain(status["chain"])
    _print_nodes(status)
    _print_refused(status["refused"])


def _print_curve(name: str, values: list[float], form: str) -> None:
    if values:
        first, last = form.format(values[0]), form.format(values[-1])
        line(f"{name:<9} {first} {sparkline(values)} {last}")


def _print_accuracy_now(status: Json) -> None:
    """The accuracy of the current tensors if the curve ends with older ones (after a removal)."""
    now = status["accuracy_now"]
    if now is None and status["accuracy"]:
        line(f"          not known for the current tensors; 'pfedul evaluate {status['run']}'")
    elif now is not None and now["source"] == "removal":
        line(f"          now {now['mean']:.1%}, the lowest {now['worst']:.1%}")


def _print_cost(cost: dict[str, float | None]) -> None:
    if cost["commit_share"] is not None:
        line(
            f"time      {cost['round_seconds']:.1f} s in rounds "
            f"({cost['client_cpu_seconds']:.1f} s of client CPU time), "
            f"{cost['commit_seconds']:.2f} s committing ({cost['commit_share']:.1%}), "
            f"{cost['record_seconds']:.2f} s recording ({cost['record_share']:.1%} of round time)"
        )


def _print_sizes(status: Json) -> None:
    sizes = (f"{part} {human_bytes(size)}" for part, size in status["bytes"].items() if size)
    line(f"folder    {', '.join(sizes)}")
    if len(status["records"]) > 1:
        kinds = (f"{name} {human_bytes(of['bytes'])}" for name, of in status["records"].items())
        line(f"records   {', '.join(kinds)}")


def _print_request(request: Json) -> None:
    targets = ", ".join(request["targets"])
    words = f"request   {request['request']}: forget {targets}, {request['status']}"
    if request["not_recalibrated"]:
        words += f"; not recalibrated yet: {', '.join(request['not_recalibrated'])}"
    if request["ending"] is not None:
        words += f" {request['ending']['finished_at']}: {request['ending']['reason']}"
    line(words)
    if request["asked"]:
        line(f"          {asked_words(request['asked'])}")
    found = request["audit"]
    if found is not None:
        gone = found["removed"]
        share = "" if gone is None else f", {100 * gone['value']:.0f} % of what could be seen gone"
        line(f"          {found['verdict']}{share}")
    for target, state in request["erased_at_client"].items():
        line(f"          {target}: {state}")


def _print_chain(chain: Json | None) -> None:
    if chain is not None:
        whose = "" if chain["own"] else ", which is not yours"
        line(f"signed    {chain['entries']} entries, by the key {chain['signer'][:16]}{whose}")


def _print_nodes(status: Json) -> None:
    """Messages, strangers and the last action, if clients are on machines of their own."""
    for row in status.get("traffic", ()):
        times = row["tasks"]
        out, back = (human_bytes(row[key] / times) for key in ("bytes_out", "bytes_in"))
        line(
            f"messages  {row['action']}, {times} times: {row['messages_out'] / times:.1f} out, "
            f"{row['messages_per_client']:.2f} for each client, with {out} "
            f"({row['out_to_shared']:.2f} x the shared tensors each); {back} back "
            f"({row['in_to_shared']:.2f} x)"
        )
    for row in status.get("strangers", ()):
        line(f"stranger  {row['node_key'][:12]}: {row['reason']}")
    for row in status.get("actions", ())[-1:]:
        line(
            f"action    {row['action']}, begun {row['started_at']}: {row['result'] or 'not ended'}"
        )


def _print_refused(refused: list[Json]) -> None:
    shortened = sum(row["reason"].startswith(f"{SHORTENED} to ") for row in refused)
    line(f"refused   {len(refused) - shortened or 'no'} replies; {shortened or 'none'} shortened")
    for row in refused[-10:]:
        line(f"  round {row['round']}, {row['client']}: {row['reason']}")


def sparkline(values: list[float], width: int = 40) -> str:
    """A small chart with one character for each value, or for `width` of them evenly chosen.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    step = max(1, -(-len(values) // width))
    chosen = values[::-1][::step][::-1]
    low, high = min(chosen), max(chosen)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in chosen)


def print_evaluation(evaluation: Evaluation) -> None:
    """A table of clients, and the three figures under it."""
    rows = [
        {
            "client": client,
            "accuracy": f"{score.accuracy:.1%}",
            "": "█" * round(20 * score.accuracy),
            "loss": f"{score.loss:.3f}",
            "test samples": str(score.samples),
        }
        for client, score in evaluation.clients.items()
    ]
    table(f"personal models after round {evaluation.round}", rows)
    worst = evaluation.clients[evaluation.worst].accuracy
    line(
        f"mean {evaluation.mean:.1%}   worst {worst:.1%} ({evaluation.worst})   "
        f"spread {evaluation.spread:.1%}"
    )
