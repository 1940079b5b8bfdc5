"""The BatchNorm bugs of other frameworks: each test shows the naive way and that ours differs.

The trap of choosing FedBN layers by name is in tests/test_split.py.
"""

import torch

from helpers.toys import QUICK, WithNorm, client_data, create, samples
from pfedul import Federation
from pfedul.aggregation.mean import StreamingMean
from pfedul.base.registry import NoOptions
from pfedul.base.tensorfile import read_file
from pfedul.base.tensors import read_tensors
from pfedul.client import Scratch, perform
from pfedul.data.samples import ClientData
from pfedul.personalization import LocalTraining
from pfedul.personalization.fedper import FEDPER
from pfedul.personalization.local import run_sgd, train_head
from pfedul.protocol import Task, Workbench
from pfedul.split import split_head

MEAN = "body.1.running_mean"
COUNT = "body.1.num_batches_tracked"


def bench_of(*clients: str) -> Workbench:
    data = {
        client: ClientData(samples(12, shift=10.0 * i, seed=i), samples(6, 10.0 * i, i))
        for i, client in enumerate(clients)
    }
    training = LocalTraining(epochs=1, batch_size=4)
    split = split_head(WithNorm())
    return Workbench(WithNorm, split, "head", FEDPER, NoOptions(), training, data, 0)


def fit(bench: Workbench, model: WithNorm, client: str, start: dict) -> dict:
    shared = {name: start[name] for name in bench.split.shared}
    personal = {name: start[name] for name in bench.split.personal}
    return perform(
        bench, Scratch(model, {}, bench.data), Task("fit", 1), client, shared, personal
    ).shared


def test_statistics_are_averaged_over_clients_not_taken_from_the_first():
    mean = StreamingMean({"running_mean": torch.zeros(1)})
    for value, weight in ((1.0, 1), (4.0, 3)):
        mean.add({"running_mean": torch.tensor([value])}, weight)
    first_clients_buffer = 1.0
    assert mean.result()["running_mean"].item() == 3.25 != first_clients_buffer


def test_a_round_aggregates_statistics(tmp_path):
    with create(tmp_path / "run", rounds=1) as federation:
        before = federation.shared[MEAN].clone()
        federation.train()
        assert not torch.equal(before, federation.shared[MEAN])


def test_statistics_do_not_leak_from_client_to_client_through_the_model_object():
    bench, start = bench_of("a", "b"), WithNorm().state_dict()
    start = {name: tensor.clone() for name, tensor in start.items()}
    used = WithNorm()
    fit(bench, used, "a", start)
    after_a = fit(bench, used, "b", start)
    alone = fit(bench, WithNorm(), "b", start)
    assert all(torch.equal(after_a[name], alone[name]) for name in alone)


def test_resetting_parameters_alone_would_leak():
    bench, start = bench_of("a", "b"), WithNorm().state_dict()
    start = {name: tensor.clone() for name, tensor in start.items()}
    used = WithNorm()
    fit(bench, used, "a", start)
    with torch.no_grad():
        for name, parameter in used.named_parameters():
            parameter.copy_(start[name])
    assert not torch.equal(used.state_dict()[MEAN], start[MEAN])


def test_the_batch_counter_stays_a_whole_number_without_dimensions(tmp_path):
    with create(tmp_path / "run", rounds=2) as federation:
        federation.train()
        counter = federation.shared[COUNT]
    assert counter.dtype == torch.int64
    assert counter.shape == ()
    assert counter.item() == 6  # 24 samples in batches of 8, two rounds
    on_disk = read_file(tmp_path / "run/shared.safetensors")[COUNT]
    assert on_disk.dtype == torch.int64
    assert on_disk.shape == ()


def test_a_mean_of_counters_would_not_be_whole():
    mean = StreamingMean({"n": torch.tensor(0)})
    for value in (2, 3):
        mean.add({"n": torch.tensor(value)}, 1)
    assert mean.result()["n"].item() == 3
    assert torch.stack([torch.tensor(2.0), torch.tensor(3.0)]).mean().item() == 2.5


def test_fitting_the_head_leaves_the_frozen_bodys_statistics_alone():
    model, data = WithNorm(), samples(12)
    before = read_tensors(model, model.state_dict())
    train_head(model, "head", data, LocalTraining(batch_size=4), epochs=2)
    after = model.state_dict()
    body = [name for name in before if name.startswith("body")]
    assert all(torch.equal(before[name], after[name]) for name in body)
    assert not torch.equal(before["head.weight"], after["head.weight"])


def test_a_body_in_train_mode_would_move_though_it_is_frozen():
    model = WithNorm()
    before = model.state_dict()[MEAN].clone()
    model.train()
    run_sgd(model, list(model.head.parameters()), samples(12), LocalTraining(batch_size=4), 1)
    assert not torch.equal(before, model.state_dict()[MEAN])


def test_fedbn_keeps_statistics_with_each_client(tmp_path):
    settings = {**QUICK, "personalization": "fedbn", "rounds": 2}
    with Federation.create(
        tmp_path / "run", data=client_data(), model=WithNorm, **settings
    ) as federation:
        federation.train()
        assert MEAN not in federation.shared
        means = [federation.personal(client)[MEAN] for client in federation.clients]
    assert not torch.equal(means[0], means[1])
