"""Table 2: how much of the model is personal, counted from the models themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pfedul.base.tensors import Tensors
from pfedul.experiments.base import Experiment, Group, Row, printed
from pfedul.experiments.claims import Claim, between
from pfedul.experiments.table4 import DATA, PERSONALIZATIONS
from pfedul.run.assembly import assemble_at_server
from pfedul.settings import from_mapping

SAMPLES = {
    "cifar10": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "femnist": ((1, 28, 28), 62),
    "digits": ((1, 8, 8), 10),
}
"""The shape of a sample and the number of classes: no data are needed to count parameters."""


def personal_share(_group: Group, row: Row, settings: Mapping[str, Any]) -> dict[str, float]:
    """Numbers that stay at a client, as a share of the model, in percent.

    Weights, biases and running statistics count; counters of batches do not.
    """
    chosen = from_mapping({**settings, "personalization": row.method}, "the scale")
    shape, classes = SAMPLES[chosen.data.partition(":")[0]]
    bench = assemble_at_server(chosen, shape, classes, None)
    state = bench.build_model().state_dict()
    personal = {name: state[name] for name in bench.split.personal}
    return {"personal": 100 * _count(personal) / _count(state)}


def _count(tensors: Tensors) -> int:
    return sum(tensor.numel() for tensor in tensors.values() if tensor.is_floating_point())


TABLE2 = Experiment(
    name="table2",
    summary="how much of the model is personal; nothing is trained",
    source="Table 2",
    groups=[Group("personal share", name, data, "fedper") for name, data in DATA.items()],
    rows=[Row(name, personalization) for name, personalization in PERSONALIZATIONS.items()],
    columns=("personal",),
    printed=printed(
        "personal share",
        list(DATA),
        ("personal",),
        """
        FedPer | 0.5 0.5 0.5
        FedRep | 0.5 0.5 0.5
        Ditto  | 100 100 100
        FedBN  | 1.2 1.2 1.2
        """,
    ),
    direct=personal_share,
    notes=(
        "the paper gives one figure for all data sets, and of FedBN counts running statistics "
        "only; here weights and biases of the normalisation are personal, too, as in FedBN's paper",
    ),
    claims=(
        Claim(
            "Table 2",
            "the head is about 0.5 % of the parameters",
            between("FedPer", "personal", 0.4, 0.6),
        ),
        Claim(
            "Table 2",
            "BatchNorm is about 1.2 % of the parameters",
            between("FedBN", "personal", 1.0, 1.4),
        ),
    ),
)
