"""The configuration of a federation: one frozen dataclass.

Command-line options, the keys of TOML files, checks and the reference in the
docs are all made from the fields below.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from pfedul.aggregation import AGGREGATIONS
from pfedul.aggregation.combinations import check_combination
from pfedul.aggregation.weights import Weighing
from pfedul.base.hashes import digest
from pfedul.base.names import AUGMENTATIONS, DEVICES, ENGINES, OPTIMIZERS, PRECISIONS
from pfedul.base.options import check_options, option, option_name, refuse_unknown
from pfedul.data.datasets import DATASETS
from pfedul.data.partitions import PARTITIONS
from pfedul.data.trigger import BACKDOOR_FORM
from pfedul.errors import PfedulError
from pfedul.models import MODELS
from pfedul.personalization import PERSONALIZATIONS
from pfedul.personalization.base import LocalTraining, cosine
from pfedul.records import canonical_records, record_names
from pfedul.records.options import RecordOptions
from pfedul.store.ledger import Statement, insert
from pfedul.store.paths import SETTINGS_FILE, inside
from pfedul.tasks import DEFAULT_TASK, TASKS, task_of

SCHEDULES = ("constant", "cosine")

OWN = "own"
"""Stands in the file for a model or data given in Python."""

HEADER = "# A pfedul federation. Run it again: pfedul train NEW-RUN --config THIS-FILE\n"


@dataclass(frozen=True)
class Settings:
    """Everything that decides the result of a run, and a few settings of how it is executed."""

    data: str = option(
        "digits",
        "Data set ('pfedul datasets'), or a function of your own: package.module:function.",
        registry=DATASETS,
    )
    data_root: str | None = option(
        None, "Folder with the data files; else the environment variable PFEDUL_DATA.", later=True
    )
    partition: str = option(
        "dirichlet:0.5", "How samples are dealt to clients.", registry=PARTITIONS
    )
    clients: int | None = option(
        None, "Number of clients; 10, or all writers of a natural partition.", at_least=1
    )
    samples: int | None = option(None, "Use at most this many training samples in all.", at_least=1)
    test_samples: int | None = option(
        None,
        "Use at most this many test samples in all; without it they are thinned as training "
        "samples are.",
        at_least=1,
        newer=True,
    )
    min_samples: int = option(10, "A client with fewer training samples is too small.", at_least=1)
    small_clients: str = option(
        "error", "What to do about clients that are too small.", choices=("error", "drop")
    )
    random_split: bool = option(
        False,
        "You know that a client's training and test samples are a random split of its samples; "
        "for own data, whose removal is then audited without oracles.",
        later=True,
    )
    task: str = option(
        DEFAULT_TASK, "What is learned; see 'pfedul tasks'.", registry=TASKS, newer=True
    )
    model: str = option(
        "cnn",
        "Model ('pfedul models'), or a function of your own: package.module:function.",
        registry=MODELS,
    )
    head: str | None = option(
        None, "Name of the model's head, where the model does not declare it."
    )
    personalization: str = option(
        "fedrep",
        "What is shared and what is personal; see 'pfedul personalizations'.",
        registry=PERSONALIZATIONS,
    )
    rounds: int = option(
        20, "Rounds in all; more on a later call continue.", at_least=0, later=True
    )
    local_epochs: int = option(5, "Epochs that a client trains in a round.", at_least=1)
    lr: float = option(0.01, "Local learning rate.", above=0)
    optimizer: str = option("sgd", "Local optimiser.", choices=OPTIMIZERS, newer=True)
    schedule: str = option(
        "constant",
        "The learning rate over the rounds: the same in all, or falling to zero along a cosine.",
        choices=SCHEDULES,
        newer=True,
    )
    augment: str = option(
        "none",
        "Change images at random in local training; recalibration and audits see them as they are.",
        choices=AUGMENTATIONS,
        newer=True,
    )
    momentum: float = option(0.9, "Local momentum (of SGD).", at_least=0, at_most=1)
    weight_decay: float = option(0.0, "Local weight decay.", at_least=0)
    batch_size: int = option(32, "Local batch size.", at_least=1)
    participation: float = option(
        1.0, "Share of the clients that takes part in a round.", above=0, at_most=1
    )
    min_replies: int = option(
        1, "A round with fewer usable replies is not committed.", at_least=1, later=True
    )
    max_update_norm: float | None = option(
        None,
        "Refuse updates longer than this (Euclidean, over parameters; statistics: 100 times).",
        above=0,
    )
    clip_updates: float = option(
        20.0,
        "Shorten updates longer than so many times the running median of their lengths (0: never).",
        at_least=0,
        newer=True,
    )
    max_weight: float = option(
        1.0,
        "No client weighs more than this share of those that a round asks.",
        above=0,
        at_most=1,
        newer=True,
    )
    max_samples: int | None = option(
        None,
        "On Flower: refuse a node that says it has more training samples; without it, one that "
        "says more than 10 times as many as the median of the others.",
        at_least=1,
        later=True,
    )
    aggregation: str = option(
        "mean",
        "How the updates of a round are put together.",
        registry=AGGREGATIONS,
        newer=True,
    )
    dp_clip: float | None = option(
        None,
        "DP-FedAvg, with --dp-noise: shorten every update to this length, and let clients take "
        "part by chance.",
        above=0,
        newer=True,
    )
    dp_noise: float = option(
        0.0,
        "DP-FedAvg: standard deviation of the noise on the sum of updates, in units of --dp-clip.",
        at_least=0,
        newer=True,
    )
    dp_delta: float = option(
        1e-5, "DP-FedAvg: the delta that epsilon is given for.", above=0, below=1, later=True
    )
    record: str = option(
        "fisher+contributions",
        "What the server keeps so that a client can be forgotten: records, or methods for those "
        "that they need, joined by plus signs; 'all' or 'none' (docs/run-folder.md).",
    )
    fisher_beta: float = option(0.99, "Momentum of the Fisher record.", at_least=0, below=1)
    fisher_noise: float = option(
        0.0, "Noise on what enters the Fisher record, relative to its size.", at_least=0
    )
    psi_epsilon: float = option(
        10.0, "Epsilon of the record psi: a larger one goes back less far.", above=0, newer=True
    )
    psi_sigma: float = option(
        0.05, "Standard deviation of the noise that psi reckons with.", above=0, newer=True
    )
    psi_delta: float = option(0.01, "Delta of the record psi.", above=0, below=1, newer=True)
    seed: int = option(0, "Seed of everything random.", at_least=0)
    plant_backdoor: str | None = option(
        None,
        "For an audit: plant a trigger in this client's training samples; "
        "with options, CLIENT:label=0,share=0.5,size=3.",
        registry=BACKDOOR_FORM,
        newer=True,
    )
    clusters: int = option(
        1,
        "Clusters of clients that never exchange updates (method 'knot').",
        at_least=1,
        newer=True,
    )
    evaluate_every: int = option(
        5, "Rounds between evaluations (0: after the last only).", at_least=0, later=True
    )
    checkpoint_every: int = option(1, "Rounds between commits to disk.", at_least=1, later=True)
    device: str = option(
        "cpu",
        f"Where clients and audits compute: {DEVICES}. Equal bits are promised on the CPU only.",
        later=True,
    )
    precision: str = option(
        "float32", "Precision of local training.", choices=PRECISIONS, newer=True
    )
    engine: str = option("auto", "Where clients work.", choices=ENGINES, later=True)
    workers: int | None = option(
        None, "Worker processes; as many as there are cores.", at_least=1, later=True
    )

    def __post_init__(self) -> None:
        check_options(self, also_allowed=(OWN,))
        object.__setattr__(self, "record", canonical_records(self.record))
        check_combination(self)

    @property
    def records(self) -> list[str]:
        """Names of the records that training keeps."""
        return record_names(self.record)

    @property
    def recording(self) -> RecordOptions:
        """The part that records need."""
        names = (spec.name for spec in fields(RecordOptions))
        return RecordOptions(**{name: getattr(self, name) for name in names})

    @property
    def training(self) -> LocalTraining:
        """The part that clients need."""
        return LocalTraining(
            epochs=self.local_epochs,
            batch_size=self.batch_size,
            lr=self.lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            optimizer=self.optimizer,
            augment=self.augment,
            task=task_of(self.task),
        )

    @property
    def weighing(self) -> Weighing:
        """How much each client of a round counts."""
        weighted = AGGREGATIONS.parse(self.aggregation)[0].weighted
        return Weighing(self.max_weight, equal=not weighted or self.dp_clip is not None)

    def rate(self, number: int) -> float | None:
        """The learning rate of a round where it differs from `lr`; after the last it stays."""
        if self.schedule == "constant":
            return None
        last = max(1, self.rounds)
        return self.lr * cosine(min(number, last) - 1, last)


def from_mapping(values: dict[str, Any], source: str) -> Settings:
    """Settings from named values; an unknown name or a wrong type is refused."""
    refuse_unknown(Settings, values, source)
    if values.get("clusters", 1) != 1:  # other records are about one model that all share
        values = {"record": "contributions", **values}
    return Settings(**values)


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a configuration file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PfedulError(f"There is no configuration file {path}.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PfedulError(f"The configuration file {path} cannot be read: {error}.") from None


def write_toml(settings: Settings) -> str:
    """The text of `federation.toml`; values that are not set are left out."""
    values = {key: value for key, value in asdict(settings).items() if value is not None}
    return HEADER + tomli_w.dumps(values)


def merge(stored: Settings, asked: dict[str, Any]) -> Settings:
    """A run's settings with the changes of a later call; raises if it changes a fixed one."""
    refuse_unknown(Settings, asked, "the options")
    wanted = replace(stored, **asked)
    for spec in fields(Settings):
        before, after = getattr(stored, spec.name), getattr(wanted, spec.name)
        if before != after and not spec.metadata["later"]:
            raise PfedulError(
                f"This run was made with {option_name(spec.name)} {before}, which cannot become "
                f"{after}; leave the option out, or start another run."
            )
    if stored.schedule != "constant" and wanted.rounds != stored.rounds:
        raise PfedulError(
            f"The rate of this run falls to zero over its {stored.rounds} rounds (--schedule "
            f"{stored.schedule}), so it cannot have {wanted.rounds}; start another run."
        )
    return wanted


def fixed(settings: Settings) -> dict[str, Any]:
    """The settings that decide a run, which no later call may change."""
    values = ((spec, getattr(settings, spec.name)) for spec in fields(settings))
    return {
        spec.name: value
        for spec, value in values
        # The default of a newer option changes nothing.
        if not spec.metadata["later"] and not (spec.metadata["newer"] and value == spec.default)
    }


def changeable(asked: dict[str, Any]) -> dict[str, Any]:
    """The values that a later call may change."""
    later = {spec.name for spec in fields(Settings) if spec.metadata["later"]}
    return {key: value for key, value in asked.items() if key in later}


def settings_row(settings: Settings) -> Statement:
    """The fixed settings, so a configuration edited by hand is noticed."""
    return insert("meta", key="settings_sha256", value=settings_digest(settings))


def settings_digest(settings: Settings) -> str:
    """SHA-256 of the settings that a later call may not change."""
    return digest(json.dumps(fixed(settings), sort_keys=True).encode())


def named(choice: object) -> str:
    """A choice as it is written in the settings; what is given in Python is 'own'."""
    if choice == OWN:
        raise PfedulError(f"'{OWN}' stands for data or a model given in Python; give them there.")
    return choice if isinstance(choice, str) else OWN


def read_settings(path: Path) -> Settings:
    """The settings of the run in this folder."""
    file = inside(path, SETTINGS_FILE)
    return from_mapping(read_toml(file), str(file))
