"""Data: loading it, dealing it to clients, or taking the user's own clients."""

from pfedul.data.backdoor import (
    BACKDOOR_FORM,
    Backdoor,
    parse_backdoor,
    trigger_value,
    triggered,
    with_backdoor,
)
from pfedul.data.datasets import DATASETS
from pfedul.data.datasets.base import Dataset, DatasetKind, Owners
from pfedul.data.load import load_clients
from pfedul.data.own import own_clients
from pfedul.data.partitions import PARTITIONS, PartitionKind
from pfedul.data.samples import (
    ClientData,
    DatasetSamples,
    FederatedData,
    Samples,
    TensorSamples,
    as_samples,
    fingerprint,
    tensor_samples,
)

__all__ = [
    "BACKDOOR_FORM",
    "DATASETS",
    "PARTITIONS",
    "Backdoor",
    "ClientData",
    "Dataset",
    "DatasetKind",
    "DatasetSamples",
    "FederatedData",
    "Owners",
    "PartitionKind",
    "Samples",
    "TensorSamples",
    "as_samples",
    "fingerprint",
    "load_clients",
    "own_clients",
    "parse_backdoor",
    "tensor_samples",
    "trigger_value",
    "triggered",
    "with_backdoor",
]
