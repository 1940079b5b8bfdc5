"""The configuration of a federation: one frozen dataclass.

Command-line options, the keys of TOML files, checks and the reference in the
docs are all made from the fields below.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import Field, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from pfedul.data import DATASETS, PARTITIONS
from pfedul.engine import ENGINES
from pfedul.errors import PfedulError
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS, LocalTraining

OWN = "own"
"""Stands in the file for a model or data given in Python, which no file can hold."""

HEADER = "# A pfedul federation. Run it again: pfedul train NEW-RUN --config THIS-FILE\n"


def _option(
    default: Any,
    help: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] | None = None,
    registry: Any = None,
    later: bool = False,
) -> Any:
    """A field with its help and limits; `later` marks what may change when a run is continued."""
    limits = {"at_least": at_least, "above": above, "at_most": at_most, "choices": choices}
    return field(
        default=default, metadata={"help": help, "registry": registry, "later": later, **limits}
    )


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run, and a few things that decide only how it is carried out."""

    data: str = _option("digits", "Data set; see 'pfedul datasets'.", registry=DATASETS)
    data_root: str | None = _option(
        None, "Folder with the data files; else the environment variable PFEDUL_DATA.", later=True
    )
    partition: str = _option(
        "dirichlet:0.5", "How samples are dealt to clients.", registry=PARTITIONS
    )
    clients: int | None = _option(
        None, "Number of clients; 10, or all writers of a natural partition.", at_least=1
    )
    samples: int | None = _option(
        None, "Use at most this many training samples in all.", at_least=1
    )
    min_samples: int = _option(10, "A client with fewer training samples is too small.", at_least=1)
    small_clients: str = _option(
        "error", "What to do about clients that are too small.", choices=("error", "drop")
    )
    model: str = _option("cnn", "Model, with its options.", registry=MODELS)
    head: str | None = _option(
        None, "Name of the model's head, where the model does not declare it."
    )
    personalization: str = _option(
        "fedrep",
        "What is shared and what is personal; see 'pfedul personalizations'.",
        registry=PERSONALIZATIONS,
    )
    rounds: int = _option(
        20, "Rounds in all; more on a later call continue.", at_least=0, later=True
    )
    local_epochs: int = _option(5, "Epochs that a client trains in a round.", at_least=1)
    lr: float = _option(0.01, "Local learning rate.", above=0)
    momentum: float = _option(0.9, "Local momentum.", at_least=0, at_most=1)
    weight_decay: float = _option(0.0, "Local weight decay.", at_least=0)
    batch_size: int = _option(32, "Local batch size.", at_least=1)
    participation: float = _option(
        1.0, "Share of the clients that takes part in a round.", above=0, at_most=1
    )
    min_replies: int = _option(1, "A round with fewer usable replies is not committed.", at_least=1)
    max_update_norm: float | None = _option(
        None, "Refuse updates longer than this (Euclidean, over parameters).", above=0
    )
    seed: int = _option(0, "Seed of everything random.", at_least=0)
    evaluate_every: int = _option(
        5, "Rounds between evaluations (0: after the last only).", at_least=0, later=True
    )
    checkpoint_every: int = _option(1, "Rounds between commits to disk.", at_least=1, later=True)
    engine: str = _option("auto", "Where clients work.", choices=ENGINES, later=True)
    workers: int | None = _option(
        None, "Worker processes; as many as there are cores.", at_least=1, later=True
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = _checked(spec, getattr(self, spec.name))
            object.__setattr__(self, spec.name, value)

    @property
    def training(self) -> LocalTraining:
        """The part that clients need."""
        return LocalTraining(
            self.local_epochs, self.batch_size, self.lr, self.momentum, self.weight_decay
        )


def option_name(name: str) -> str:
    """How a field is written on the command line.

    >>> option_name("local_epochs")
    '--local-epochs'
    """
    return "--" + name.replace("_", "-")


def from_mapping(values: dict[str, Any], source: str) -> Settings:
    """Settings from named values; an unknown name or a wrong type is refused."""
    known = {spec.name for spec in fields(Settings)}
    for key in values:
        if key not in known:
            raise PfedulError(
                f"Unknown key '{key}' in {source}; known are: {', '.join(sorted(known))}."
            )
    return Settings(**values)


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a configuration file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PfedulError(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PfedulError(f"The configuration file {path} cannot be read: {error}.") from None


def write_toml(settings: Settings) -> str:
    """The text of `federation.toml`; values that are not set are left out."""
    values = {key: value for key, value in asdict(settings).items() if value is not None}
    return HEADER + tomli_w.dumps(values)


def merge(stored: Settings, asked: dict[str, Any]) -> Settings:
    """A run's settings with what a later call may change; anything else must agree."""
    wanted = replace(stored, **asked)
    for spec in fields(Settings):
        before, after = getattr(stored, spec.name), getattr(wanted, spec.name)
        if before != after and not spec.metadata["later"]:
            raise PfedulError(
                f"This run was made with {option_name(spec.name)} {before}, which cannot become "
                f"{after}; leave the option out, or start another run."
            )
    return wanted


def changeable(asked: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that a later call may change."""
    later = {spec.name for spec in fields(Settings) if spec.metadata["later"]}
    return {key: value for key, value in asked.items() if key in later}


def _checked(spec: Field[Any], value: Any) -> Any:
    """The value in its one canonical form, or a sentence."""
    if value is None and spec.default is None:
        return None
    value = _typed(spec, value)
    _check_limits(spec, value)
    registry = spec.metadata["registry"]
    return value if registry is None or value == OWN else registry.canonical(value)


def _typed(spec: Field[Any], value: Any) -> Any:
    wanted = str(spec.type).split(" | ")[0]
    if wanted == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if wanted == "str" and isinstance(value, Path):
        value = str(value)
    if type(value).__name__ != wanted:
        kind = {"int": "a whole number", "float": "a number", "str": "text"}[wanted]
        raise PfedulError(f"{option_name(spec.name)} takes {kind}, not {value!r}.")
    return value


def _check_limits(spec: Field[Any], value: Any) -> None:
    limits = spec.metadata
    name = option_name(spec.name)
    if limits["choices"] is not None and value not in limits["choices"]:
        raise PfedulError(f"{name} is one of {', '.join(limits['choices'])}, not '{value}'.")
    if isinstance(value, float) and not math.isfinite(value):
        raise PfedulError(f"{name} must be a finite number, not {value}.")
    if limits["at_least"] is not None and not value >= limits["at_least"]:
        raise PfedulError(f"{name} must be at least {limits['at_least']}, not {value}.")
    if limits["above"] is not None and not value > limits["above"]:
        raise PfedulError(f"{name} must be above {limits['above']}, not {value}.")
    if limits["at_most"] is not None and not value <= limits["at_most"]:
        raise PfedulError(f"{name} must be at most {limits['at_most']}, not {value}.")
