"""What a node allows: a file on its own machine, which no server can change.

    data = ["npz:file=/data/ward-3.npz"]     # data sets, as the settings name them
    actions = ["fit", "evaluate", "recalibrate", "statistics", "work", "erase"]
    work = ["train-shared"]                  # functions of unlearning methods (action "work")
    epochs = 10                              # the most in one order, of any phase of training
    plant_backdoor = false

The node config names it: `policy="/etc/pfedul/policy.toml"`. What is left out is not
restricted, but a backdoor must be allowed. It binds whoever gives orders to this app; it
cannot bind other code that a server has the node run (docs/deploy.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pfedul.base.options import refuse_unknown
from pfedul.data.datasets import DATASETS
from pfedul.data.trigger import parse_backdoor
from pfedul.engine.flower.wire import MESSAGE_TYPES, NodeOrder
from pfedul.errors import PfedulError
from pfedul.personalization import PERSONALIZATIONS
from pfedul.settings import Settings, read_toml


@dataclass(frozen=True)
class Policy:
    """The bounds of one node; None does not restrict."""

    data: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    work: tuple[str, ...] | None = None
    epochs: int | None = None
    plant_backdoor: bool = False


def policy_of(node_config: Mapping[str, Any]) -> Policy:
    """The policy that the node config names. A file that cannot be read allows nothing."""
    if "policy" not in node_config:
        return Policy()
    path = Path(str(node_config["policy"])).expanduser()
    if not path.is_absolute():
        raise PfedulError(f"the policy '{path}' of the node config must be an absolute path")
    return read_policy(path)


def read_policy(path: Path) -> Policy:
    """The policy in a file; whatever is not understood is refused."""
    values = read_toml(path)
    refuse_unknown(Policy, values, str(path))
    for key, value in values.items():
        if not _IS_SOUND[key](value):
            raise PfedulError(f"The policy {path} has {key} = {value!r}; see docs/deploy.md.")
    lists = {key: tuple(value) for key, value in values.items() if isinstance(value, list)}
    if "data" in lists:
        lists["data"] = tuple(DATASETS.canonical(name) for name in lists["data"])
    return Policy(**{**values, **lists})


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


_IS_SOUND: dict[str, Callable[[Any], bool]] = {
    "data": _texts,
    "actions": lambda value: _texts(value) and set(value) <= set(MESSAGE_TYPES),
    "work": _texts,
    "epochs": lambda value: type(value) is int and value >= 1,
    "plant_backdoor": lambda value: isinstance(value, bool),
}


def check_order(
    policy: Policy, client: str, action: str, order: NodeOrder, *, own_data: bool
) -> None:
    """Raise if this client's policy does not allow an order.

    `own_data`: the settings do not decide which data it has. Every node says who it is
    ("hello"): else it could not refuse in a sentence.
    """
    if order.task.action != action:
        raise PfedulError(f"a message to {action} holds an order to {order.task.action}")
    if action != "hello":
        _require_listed(policy.actions, action, "the action")
    if action == "erase":
        return
    settings = Settings(**order.settings)
    if not own_data:
        _require_listed(policy.data, settings.data, "the data")
    if action == "work":
        _require_listed(policy.work, str(order.task.how["what"]), "the work")
    if _plants_at(settings, client) and not policy.plant_backdoor:
        raise _not_allowed("a planted backdoor")
    for epochs in _epochs(settings, order):
        if policy.epochs is not None and not epochs <= policy.epochs:
            raise _not_allowed(f"{epochs} epochs (at most {policy.epochs})")


def _plants_at(settings: Settings, client: str) -> bool:
    planted = settings.plant_backdoor
    return planted is not None and parse_backdoor(planted).client == client


def _require_listed(allowed: Collection[str] | None, name: str, what: str) -> None:
    if allowed is not None and name not in allowed:
        raise _not_allowed(f"{what} '{name}'")


def _not_allowed(what: str) -> PfedulError:
    return PfedulError(f"the policy of this node does not allow {what}")


def _epochs(settings: Settings, order: NodeOrder) -> Iterator[Any]:
    """All numbers of epochs that an order names, wherever they are."""
    _, of_personalization = PERSONALIZATIONS.parse(settings.personalization)
    task = order.task
    for place in (asdict(settings), asdict(of_personalization), task.how, asdict(task)):
        yield from (value for name, value in place.items() if _counts_epochs(name, value))
    if task.recalibration is not None and task.recalibration.epochs is not None:
        yield task.recalibration.epochs


def _counts_epochs(name: str, value: object) -> bool:
    return name.endswith("epochs") and value is not None
