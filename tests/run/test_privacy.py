"""DP-FedAvg: bounded updates, noise, participation by chance, and what is said about it."""

from __future__ import annotations

import math
from contextlib import closing
from statistics import pstdev

import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep, deep_again
from helpers.toys import tensor_digests
from pfedul import PfedulError
from pfedul.aggregation.accountant import epsilon
from pfedul.aggregation.private import NoisyMean, Privacy
from pfedul.base.keys import KEY_VARIABLE, make_key
from pfedul.base.tensors import norm
from pfedul.records.contributions import BASE_FILE, contribution
from pfedul.report.formats import write_report
from pfedul.run.privacy import noisy_mean, sampled
from pfedul.status import privacy_words, read_status
from pfedul.store.ledger import insert
from pfedul.store.store import Store

DP = {"dp_clip": 0.5, "dp_noise": 0.1, "participation": 0.5, "personalization": "fedbn"}
OFFSET = 3.0


def private(folder, **settings):
    return deep(folder, **{**DP, "engine": "inline", "rounds": 6, **settings})


def test_the_mean_by_hand():
    before = {"w": torch.full((20_000,), OFFSET)}
    mean = NoisyMean(Privacy(clip=2.0, noise=0.5, expected=4.0), 7, dict, before)
    for change in (1.0, 2.0):
        mean.add("ann", {"w": before["w"] + change}, 1)
    result = mean.result()["w"]
    noise = result - OFFSET - 3.0 / 4.0
    assert mean.share("ann") == 0.25
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.01)
    assert float(noise.std()) == pytest.approx(0.5 * 2.0 / 4.0, rel=0.02)
    torch.testing.assert_close(noise.double(), mean.noise["w"], rtol=1e-3, atol=1e-5)


def test_a_round_that_is_played_again_with_other_replies_has_other_noise():
    """Who saw the round before it was lost could else subtract one mean from the other."""

    def noise(*changes):
        mean = NoisyMean(Privacy(1.0, 1.0, 3.0), 7, dict, {"w": torch.zeros(3)})
        for change in changes:
            mean.add("ann", {"w": torch.full((3,), change)}, 1)
        mean.result()
        return mean.noise["w"]

    assert torch.equal(noise(1.0, 2.0), noise(1.0, 2.0))
    assert not torch.isclose(noise(1.0, 2.0), noise(1.0)).any()


def test_nobody_in_a_round_leaves_the_noise_alone():
    mean = NoisyMean(Privacy(1.0, 1.0, 1.0), 7, dict, {"w": torch.zeros(3)})
    assert torch.equal(mean.result()["w"], mean.noise["w"].float())


def test_training_takes_part_by_chance_and_resumes(tmp_path):
    private(tmp_path / "parts").close()
    copied(tmp_path / "parts", tmp_path / "whole")
    with deep_again(tmp_path / "whole") as federation:
        federation.train()
        replies = federation.store.ledger.column("SELECT replies FROM rounds ORDER BY round")
        expected = [len(sampled(federation.store, federation.clients, 0.5, n)) for n in range(1, 7)]
    assert replies == expected
    assert len(set(replies)) > 1
    for rounds in (3, 6):
        with deep_again(tmp_path / "parts") as federation:
            federation.train(rounds)
    assert tensor_digests(tmp_path / "whole") == tensor_digests(tmp_path / "parts")


def test_the_noise_is_another_in_a_copy_with_other_clients_or_another_past(tmp_path):
    """Copies have one secret: the difference of two rounds with the same noise would be clean."""
    with private(tmp_path / "run") as federation:
        federation.train(1)
        members, shared = federation.members, federation.shared
        moved = {name: tensor + 1 for name, tensor in shared.items()}
        fewer = {client: member for client, member in members.items() if client != TARGET}

        def seed(clients, before, number=2):
            store, split = federation.store, federation.bench.split
            return noisy_mean(store, federation.settings, split, clients, before, number).args[1]

        reverse = dict(reversed(members.items()))
        assert seed(members, shared) == seed(reverse, shared)
        others = [seed(fewer, shared), seed(members, moved), seed(members, shared, 3)]
        assert len({seed(members, shared), *others}) == 4


def test_the_secret_is_not_in_the_run(tmp_path, monkeypatch):
    """Who can read the run folder must not be able to take the noise off."""
    run = tmp_path / "run"
    with private(run) as federation:
        # As an older version had it.
        federation.store.ledger.write([insert("meta", key="dp_secret", value="5ec7e7")])
        federation.train()
        rounds = [sampled(federation.store, federation.clients, 0.5, n) for n in range(50)]
    assert b"dp_secret" not in (run / "ledger.db").read_bytes()
    make_key(tmp_path / "other.key")
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "other.key"))
    with closing(Store.open_unremembered(copied(run, tmp_path / "copy"))) as store:
        assert [sampled(store, federation.clients, 0.5, n) for n in range(50)] != rounds


def test_each_client_takes_part_as_often_as_the_rate_says(tmp_path):
    clients = [f"c{index}" for index in range(50)]
    with private(tmp_path / "run") as federation:
        counts = [len(sampled(federation.store, clients, 0.2, n)) for n in range(1, 201)]
    assert sum(counts) / (50 * 200) == pytest.approx(0.2, abs=0.02)
    assert pstdev(counts) == pytest.approx(math.sqrt(50 * 0.2 * 0.8), rel=0.25)


def test_noise_differs_between_runs_with_one_seed(tmp_path):
    """Clients know the seed: if it gave the noise, they could take it off."""
    for name in ("one", "two"):
        with private(tmp_path / name, participation=1.0, rounds=1) as federation:
            federation.train()
    assert tensor_digests(tmp_path / "one") != tensor_digests(tmp_path / "two")


def test_contributions_are_of_shortened_updates_and_the_noise_is_the_servers(tmp_path):
    with private(tmp_path / "run") as federation:
        federation.train()
        check_sums(federation)
        for client in federation.clients:
            own = contribution(federation.store, client) or {}
            assert norm(own) <= 6 * DP["dp_clip"] / (0.5 * 4) * 1.001
        federation.forget(TARGET, repair_rounds=0)
        check_sums(federation)
        federation.train(8)


def check_sums(federation):
    """theta = base and noise + the sum over all clients of S_u."""
    total = {n: t.double() for n, t in federation.store.read(BASE_FILE).items() if "(" not in n}
    for client in federation.clients:
        for name, tensor in (contribution(federation.store, client) or {}).items():
            total[name] += tensor
    for name, tensor in total.items():
        torch.testing.assert_close(tensor.float(), federation.shared[name], rtol=1e-5, atol=1e-6)


def test_status_and_report_say_epsilon_and_what_it_leaves_out(tmp_path):
    run = tmp_path / "run"
    with private(run, dp_noise=1.0) as federation:
        federation.train()
        federation.forget(TARGET, repair_rounds=0, allow_unchanged=True)
    page = tmp_path / "page.md"
    write_report(run, "md", output=page)
    privacy = read_status(run)["privacy"]
    assert privacy["epsilon"] == epsilon(1.0, 0.5, 6, 1e-5)
    words = privacy_words(privacy)
    assert "Not covered: personal parts, records" in words
    assert "removals" in words
    assert words.split(" at delta")[0] in page.read_text()


def test_epsilon_is_that_of_the_literature():
    """The Gaussian mechanism once, and the MNIST tutorial of TensorFlow Privacy (2.6 to 3.0)."""
    pytest.importorskip("dp_accounting")
    once = epsilon(1.0, 1.0, 1, 1e-5)
    assert 4.0 < once < 5.4  # the classical bound sqrt(2 ln(1.25/delta)) is 4.84
    assert 2.3 < epsilon(1.1, 256 / 60_000, 14_062, 1e-5) < 3.0
    assert epsilon(1.0, 0.1, 1, 1e-5) < once < epsilon(1.0, 1.0, 10, 1e-5)


def test_without_the_accountant_status_says_how_to_get_it():
    privacy = {"epsilon": None, "delta": 1e-5, "rounds": 3, "clip": 1, "noise": 1, "rate": 1}
    assert "pip install 'pfedul[dp]'" in privacy_words(privacy)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"dp_noise": 0.0}, "needs both --dp-clip and --dp-noise"),
        ({"dp_clip": None}, "needs both --dp-clip and --dp-noise"),
        ({"aggregation": "median"}, "is for the mean of all clients"),
        ({"min_replies": 2}, "leave out --min-replies"),
        ({"max_weight": 0.5}, "--max-weight decides nothing"),
        ({"record": "psi"}, "which the record psi is about"),
        ({"personalization": "fedper"}, "statistic that this model shares"),
    ],
)
def test_what_does_not_go_with_it_is_refused(settings, sentence, tmp_path):
    with pytest.raises(PfedulError, match=sentence):
        private(tmp_path / "run", **settings)
