"""Small federations that the tests share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pfedul import Federation
from pfedul.base.hashes import digest_file
from pfedul.base.registry import NoOptions
from pfedul.data.samples import TensorSamples
from pfedul.personalization import PERSONALIZATIONS, Job, LocalTraining


class OneWeight(nn.Module):
    """One body weight under a head of two: every gradient fits on a line of paper."""

    head_name = "head"

    def __init__(self, body: float = 1.0, head: tuple[float, float] = (0.5, -0.25)) -> None:
        super().__init__()
        self.body = nn.Linear(1, 1, bias=False)
        self.head = nn.Linear(1, 2, bias=False)
        with torch.no_grad():
            self.body.weight.fill_(body)
            self.head.weight.copy_(torch.tensor(head).view(2, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class WithNorm(nn.Module):
    """A body with BatchNorm under a head."""

    head_name = "head"

    def __init__(self, inputs: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class Tied(nn.Module):
    """The same matrix twice."""

    head_name = "head"

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(4, 4, bias=False)
        self.two = nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.two(self.one(x).relu()))


def samples(count: int, shift: float = 0.0, seed: int = 0, inputs: int = 4) -> TensorSamples:
    """Three classes that a small model can tell apart."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 3
    centres = torch.eye(3, inputs) * 3
    noise = torch.randn(count, inputs, generator=generator)
    return TensorSamples(centres[y] + noise + shift, y)


def client_data(clients: int = 3, train: int = 24, test: int = 12) -> dict[str, Any]:
    """Own data in the form that users give: client -> ((x, y), (x, y))."""
    data = {}
    for index in range(clients):
        parts = samples(train, index, 2 * index), samples(test, index, 2 * index + 1)
        data[f"c{index}"] = tuple((part.x, part.y) for part in parts)
    return data


def uneven_data(clients: int = 3, train: int = 24, test: int = 12) -> dict[str, Any]:
    """As `client_data`, but each client has many samples of one class and few of the others."""
    data = {}
    for index, (client, parts) in enumerate(client_data(clients, train, test).items()):
        kept = [(y == index % 3) | (torch.arange(len(y)) % 4 == 0) for _, y in parts]
        data[client] = tuple((x[k], y[k]) for (x, y), k in zip(parts, kept, strict=True))
    return data


class Unpicklable(torch.utils.data.Dataset):
    """Data that cannot leave the process."""

    def __init__(self) -> None:
        self.generator = (index for index in range(3))

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.ones(4) * index, index % 3


QUICK: dict[str, Any] = {
    "personalization": "fedper",
    "rounds": 3,
    "local_epochs": 1,
    "batch_size": 8,
    "engine": "inline",
}


def create(run: Path, **settings: Any) -> Federation:
    """A federation of three small clients, trained in this process unless told otherwise."""
    chosen = {"data": client_data(), "model": WithNorm, **QUICK, **settings}
    return Federation.create(run, **chosen)


def reopen(run: Path, **settings: Any) -> Federation:
    return Federation.open(run, data=client_data(), model=WithNorm, **settings)


def tensor_digests(run: Path) -> dict[str, str]:
    """Digest of every tensor file of a run."""
    files = sorted(run.rglob("*.safetensors"))
    return {str(file.relative_to(run)): digest_file(file) for file in files}


def one_sample_job(personalization: Any, options: Any = None, **training: Any) -> Job:
    """A job of one sample (x = 1, class 0) on the model of one weight."""
    model = OneWeight()
    head = "head" if personalization.needs_head else None
    split = personalization.split(model)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    return Job(
        client="c0",
        model=model,
        split=split,
        head=head,
        shared={name: state[name] for name in split.shared},
        personal={name: state[name] for name in split.personal},
        samples=TensorSamples(torch.tensor([[1.0]]), torch.tensor([0])),
        training=LocalTraining(**{"epochs": 1, "lr": 0.1, "momentum": 0.0, **training}),
        options=options or NoOptions(),
    )


def norm_job(name: str, **training: Any) -> Job:
    """On the model with BatchNorm, with personal tensors that differ from the model's own."""
    torch.manual_seed(0)
    entry, options = PERSONALIZATIONS.parse(name)
    model = WithNorm()
    split = entry.split(model)
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    own = {k: t + 0.25 if t.is_floating_point() else t for k, t in state.items()}
    return Job(
        client="c0",
        model=model,
        split=split,
        head="head" if entry.needs_head else None,
        shared={key: state[key] for key in split.shared},
        personal={key: own[key] for key in split.personal},
        samples=samples(24),
        training=LocalTraining(**{"epochs": 1, "batch_size": 8, **training}),
        options=options,
    )
