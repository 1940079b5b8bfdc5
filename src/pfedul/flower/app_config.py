"""The run config of the Flower app: what `flwr run -c '...'` may say.

Its keys are those of the settings and of the options of `forget`, with hyphens;
an empty text stands for "not given", since Flower wants every key to be declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pfedul.base.options import check_options, option, option_name
from pfedul.errors import PfedulError
from pfedul.settings import Settings
from pfedul.unlearn.asked import Asked
from pfedul.unlearn.options import ForgetOptions

ACTIONS = ("train", "forget", "evaluate", "status", "inspect", "recalibrate", "admit")

NOT_HERE = {"engine", "workers", "device", "data_root", "checkpoint_every"}
"""Settings that mean nothing where clients are nodes: each has its own, and every round is
committed."""


@dataclass(frozen=True)
class AppOptions:
    """Options of every action."""

    action: str = option("train", "What to do.", choices=ACTIONS)
    run: str = option("", "The run folder, on the server's side.")
    config: str = option("", "Settings from a TOML file on the server's side, for a new run.")
    client: str = option("", "The client, or several with commas between, to forget or admit.")
    signed_request: str = option(
        "", "A request to be forgotten that the client's node has signed: its file at the server."
    )
    again: bool = option(False, "Admit a forgotten client as a new one.")
    nodes: int = option(
        0, "Clients of a new run where the settings do not say how many.", at_least=0
    )
    nodes_deadline: float = option(60.0, "Seconds to wait for nodes to connect.", above=0)
    answer_deadline: float = option(
        60.0, "Seconds to wait for nodes to say who they are, or that they have erased.", above=0
    )
    reply_deadline: float = option(600.0, "Seconds to wait for the replies to a task.", above=0)

    def __post_init__(self) -> None:
        check_options(self)
        if not Path(self.run).expanduser().is_absolute():
            raise PfedulError("Say where the run folder is: -c 'run=\"/absolute/path\"'.")

    @property
    def path(self) -> Path:
        """The run folder."""
        return Path(self.run).expanduser().resolve()

    @property
    def clients(self) -> list[str]:
        """The clients that the action is about."""
        return [name.strip() for name in self.client.split(",") if name.strip()]


def defaults() -> dict[str, Any]:
    """Every key with its default, for the app's pyproject.toml."""
    own = {spec.name: spec.default for spec in fields(AppOptions)}
    others = [*(_names(Settings) - NOT_HERE), *map(_forget_key, _names(ForgetOptions))]
    others += _names(Asked)
    values = {**dict.fromkeys(sorted(others), ""), **own}
    return {_key(name): value for name, value in values.items()}


def read_config(config: Mapping[str, Any]) -> tuple[AppOptions, dict[str, Any]]:
    """The options of the app, and those of the settings or of `forget`, as the action needs.

    One config serves all actions, so keys of other actions are ignored.
    """
    given = {key.replace("-", "_"): value for key, value in config.items() if value != ""}
    of_forget = {_forget_key(name): name for name in _names(ForgetOptions)}
    own, settings, asking = _names(AppOptions), _names(Settings) - NOT_HERE, _names(Asked)
    for key in given:
        if key not in own | settings | set(of_forget) | asking:
            raise PfedulError(_unknown(key))
    options = AppOptions(**{key: given[key] for key in given if key in own})
    if options.action == "forget":
        of_forget |= {name: name for name in asking}
    if options.action in {"forget", "inspect"}:
        return options, {of_forget[key]: given[key] for key in given if key in of_forget}
    return options, {key: given[key] for key in given if key in settings - own}


def _names(kind: type[Any]) -> set[str]:
    return {spec.name for spec in fields(kind)}


def _forget_key(name: str) -> str:
    """An option of `forget` that is a setting as well has a key of its own."""
    return f"forget_{name}" if name in _names(Settings) else name


def _unknown(key: str) -> str:
    if key in NOT_HERE:
        return f"The key '{_key(key)}' means nothing on Flower; leave it out."
    return f"Unknown key '{_key(key)}' in the run config; see docs/cli.md."


def rows() -> list[dict[str, str]]:
    """A table of the app's own keys, for the docs."""
    return [
        {"key": _key(spec.name), "default": str(spec.default), "meaning": spec.metadata["help"]}
        for spec in fields(AppOptions)
    ]


def _key(name: str) -> str:
    return option_name(name).removeprefix("--")
