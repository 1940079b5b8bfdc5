"""Any module of torch will do. The last linear layer is the head, which each hospital keeps."""

from torch import nn


def network(hidden: int = 128) -> nn.Module:
    """A small network; `--model hospitals.model:network:hidden=64` makes it smaller."""
    return nn.Sequential(
        *(nn.Linear(64, hidden), nn.BatchNorm1d(hidden), nn.ReLU()),
        *(nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU()),
        nn.Linear(hidden, 10),
    )
