"""Time federated averaging rounds of Apple's ``pfl`` on random images.

This script is one contender of a speed comparison. It runs in a virtual environment of its own
that holds ``torch`` and ``pfl`` and needs nothing else::

    pip install torch==2.13.0
    pip install pfl==0.6.0
    python pfl_peer.py --model cnn --model-file models.py

``models.py`` defines ``build(name: str) -> torch.nn.Module``, so every contender can train the
same module: images of shape [3, 32, 32] in, 10 logits out.

What is measured: one central iteration of ``FederatedAveraging`` on ``SimulatedBackend``, from
the end of one iteration to the end of the next. It holds the sampling of the cohort (always every
client), local SGD without momentum, the sum of the model differences and the central SGD step
with learning rate 1. CPU time is that of the whole process, all threads included.

What is left out: imports, building the data and the model, the first round (a warm-up, and the
only one in which ``pfl`` evaluates, as it always does at iteration 0), evaluation, metric
printing, privacy mechanisms and the weighting postprocessor, which would change nothing for
clients of equal size. Two habits of ``pfl`` are kept as they are: it takes the local batches in
the same order in every epoch, and it averages parameters only, so buffers such as running
statistics pass from one client to the next.

Without ``--serve`` the script runs ``--rounds`` rounds after the warm-up and prints one line of
JSON. With ``--serve`` it waits on standard input after the warm-up: each line ``round`` runs one
round and prints its times as one line of JSON, and the end of the input ends the script. The
waiting is not part of any time.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pfl
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F

SEED = 0
CLASSES = 10
IMAGE_SHAPE = (3, 32, 32)
LOCAL_LEARNING_RATE = 0.01
CENTRAL_LEARNING_RATE = 1.0
NEVER = sys.maxsize
"""An iteration number that is never reached: the callback ends the training instead."""


class RoundTimes(TypedDict):
    """What one round took."""

    cpu_seconds: float
    wall_seconds: float


class Classifier(nn.Module):
    """Give a network the ``loss`` and ``metrics`` methods that ``PyTorchModel`` calls."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits of the network."""
        logits: Tensor = self.network(inputs)
        return logits

    def loss(self, inputs: Tensor, targets: Tensor, eval: bool = False) -> Tensor:
        """Return the mean cross-entropy of one batch."""
        self._set_mode(eval)
        return F.cross_entropy(self(inputs), targets)

    @torch.no_grad()
    def metrics(self, inputs: Tensor, targets: Tensor, eval: bool = True) -> dict[str, Any]:
        """Return the loss of one batch as a ``pfl`` metric."""
        self._set_mode(eval)
        total = F.cross_entropy(self(inputs), targets, reduction="sum").item()
        return {"loss": Weighted(total, len(targets))}

    def _set_mode(self, eval: bool) -> None:
        """Switch the mode only when it changes: a walk over all modules per step is waste."""
        if self.training == eval:
            self.train(not eval)


class RoundClock(TrainingProcessCallback):  # type: ignore[misc]
    """Report the times of every round but the first, and decide whether another one follows.

    ``report`` receives the times of a finished round. ``more`` is asked after every round, the
    warm-up included, and may block: the clock starts again only once it has answered.
    """

    def __init__(self, report: Callable[[RoundTimes], None], more: Callable[[], bool]) -> None:
        self._report = report
        self._more = more
        self._restart()

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        """Start the clock."""
        del model
        self._restart()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Stop the clock, hand over the times and start again if another round is wanted."""
        times = self._elapsed()
        del aggregate_metrics, model
        if central_iteration > 0:
            self._report(times)
        stop = not self._more()
        self._restart()
        return stop, Metrics()

    def _elapsed(self) -> RoundTimes:
        return {
            "cpu_seconds": time.process_time() - self._cpu_start,
            "wall_seconds": time.perf_counter() - self._wall_start,
        }

    def _restart(self) -> None:
        self._wall_start = time.perf_counter()
        self._cpu_start = time.process_time()


def load_network(model_file: Path, name: str) -> nn.Module:
    """Call ``build(name)`` of the given Python file, with torch seeded."""
    spec = importlib.util.spec_from_file_location("pfl_peer_model_file", model_file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"not a Python file: {model_file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(SEED)
    network = module.build(name)
    if not isinstance(network, nn.Module):
        raise SystemExit(f"build({name!r}) of {model_file} returned no torch.nn.Module")
    return network


def make_clients(clients: int, samples: int) -> FederatedDataset:
    """Build the clients' data once, as tensors in memory; every cohort takes each client once.

    The same dataset objects serve all rounds, so ``pfl`` cuts their batches only once.
    """
    generator = torch.Generator().manual_seed(SEED)
    datasets: list[PyTorchTensorDataset] = []
    for _ in range(clients):
        inputs = torch.randn(samples, *IMAGE_SHAPE, generator=generator)
        targets = torch.randint(0, CLASSES, (samples,), generator=generator)
        datasets.append(PyTorchTensorDataset((inputs, targets), eval_kwargs={"eval": True}))
    sampler = get_user_sampler("minimize_reuse", range(clients))
    return FederatedDataset(datasets.__getitem__, sampler)


def make_model(network: nn.Module) -> PyTorchModel:
    """Wrap the network for ``pfl`` with plain SGD, both locally and centrally."""
    classifier = Classifier(network)
    central_optimizer = torch.optim.SGD(classifier.parameters(), lr=CENTRAL_LEARNING_RATE)
    return PyTorchModel(
        model=classifier,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=central_optimizer,
    )


def train(args: argparse.Namespace, clock: RoundClock) -> None:
    """Run federated averaging with all clients in every round until the clock ends it."""
    clients = make_clients(args.clients, args.samples)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=NEVER,
            evaluation_frequency=NEVER,
            train_cohort_size=args.clients,
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=clients, val_data=clients),
        model=make_model(load_network(args.model_file, args.model)),
        model_train_params=NNTrainHyperParams(
            local_num_epochs=args.local_epochs,
            local_learning_rate=LOCAL_LEARNING_RATE,
            local_batch_size=args.batch_size,
        ),
        model_eval_params=NNEvalHyperParams(local_batch_size=args.batch_size),
        callbacks=[clock],
        send_metrics_to_platform=False,
    )


def run_batch(args: argparse.Namespace) -> None:
    """Time the wanted number of rounds and print them all as one line of JSON."""
    rounds: list[RoundTimes] = []
    train(args, RoundClock(report=rounds.append, more=lambda: len(rounds) < args.rounds))
    summary = {
        "pfl": pfl.__version__,
        "torch": torch.__version__,
        "rounds": rounds,
        "images_per_round": args.clients * args.samples * args.local_epochs,
    }
    print(json.dumps(summary), flush=True)


def run_served(args: argparse.Namespace) -> None:
    """Run one round per request and print the times of each as one line of JSON."""
    train(args, RoundClock(report=print_times, more=round_requested))


def print_times(times: RoundTimes) -> None:
    """Print the times of one round as one line of JSON."""
    print(json.dumps(times), flush=True)


def round_requested() -> bool:
    """Wait for a line of input; return whether it asks for a round or the input has ended."""
    line = sys.stdin.readline()
    if not line:
        return False
    if line.strip() != "round":
        raise SystemExit(f"unknown request: {line.strip()!r}")
    return True


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1: {text}")
    return number


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Time federated averaging rounds of pfl.")
    parser.add_argument("--model", choices=["resnet18", "cnn"], default="cnn")
    parser.add_argument(
        "--model-file", type=Path, required=True, help="Python file with build(name) -> Module"
    )
    parser.add_argument("--clients", type=positive, default=4)
    parser.add_argument("--samples", type=positive, default=256, help="images per client")
    parser.add_argument("--batch-size", type=positive, default=32)
    parser.add_argument(
        "--rounds", type=positive, default=3, help="timed rounds; one warm-up round is added"
    )
    parser.add_argument("--local-epochs", type=positive, default=1)
    parser.add_argument("--threads", type=positive, default=1, help="torch threads")
    parser.add_argument("--serve", action="store_true", help="run rounds on request from stdin")
    return parser.parse_args()


def prepare_process(threads: int) -> None:
    """Fix threads, seeds and device; pfl also needs an event loop that is already set."""
    torch.set_num_threads(threads)
    np.random.seed(SEED)
    # pfl asks for its device with every batch; naming it spares the search for accelerators.
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    asyncio.set_event_loop(asyncio.new_event_loop())


def main() -> None:
    """Run the chosen mode."""
    args = parse_args()
    prepare_process(args.threads)
    if args.serve:
        run_served(args)
    else:
        run_batch(args)


if __name__ == "__main__":
    main()
