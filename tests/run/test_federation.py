"""The facade: create, train, evaluate, open, with our data and with the user's own."""

import math

import pytest
import torch

from helpers.told import AtProgress
from helpers.toys import QUICK, WithNorm, client_data, create, reopen, tensor_digests
from pfedul import Federation, PfedulError
from pfedul.base.tensorfile import read_file
from pfedul.personalization import PERSONALIZATIONS
from pfedul.status import read_status


@pytest.mark.parametrize("name", [entry.name for entry in PERSONALIZATIONS])
def test_every_personalization_learns(name, tmp_path):
    with create(
        tmp_path / "run", personalization=name, rounds=8, local_epochs=2, lr=0.05
    ) as federation:
        before = federation.evaluate().mean
        federation.train()
        after = federation.evaluate()
    assert after.mean > max(0.7, before)
    assert set(after.clients) == {"c0", "c1", "c2"}


def test_nothing_personal_is_ever_averaged_and_nothing_shared_stays_behind(tmp_path):
    with create(tmp_path / "run", personalization="fedper") as federation:
        federation.train()
        heads = [federation.personal(client)["head.weight"] for client in federation.clients]
        assert "head.weight" not in federation.shared
        assert set(federation.personal("c0")) == {"head.weight", "head.bias"}
    assert not torch.equal(heads[0], heads[1])


def test_fedavg_has_no_personal_files(tmp_path):
    with create(tmp_path / "run", personalization="fedavg") as federation:
        federation.train()
        assert federation.personal("c0") == {}
    assert not (tmp_path / "run/clients").exists()


def test_the_seed_decides_everything(tmp_path):
    runs = {}
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        with create(tmp_path / name, seed=seed) as federation:
            federation.train()
        runs[name] = tensor_digests(tmp_path / name)
    assert runs["one"] == runs["again"]
    assert runs["one"] != runs["two"]
    assert runs["one"]["init.safetensors"] != runs["two"]["init.safetensors"]


def test_the_callers_own_random_stream_is_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    with create(tmp_path / "run") as federation:
        federation.train()
        federation.evaluate()
    assert torch.equal(torch.rand(1), expected)


def test_a_client_who_leaves_changes_no_other_clients_first_round(tmp_path):
    everyone = client_data(4)
    fewer = {client: parts for client, parts in everyone.items() if client != "c2"}
    for name, data in (("all", everyone), ("fewer", fewer)):
        with create(tmp_path / name, data=data, rounds=1) as federation:
            federation.train()
    for client in fewer:
        files = [
            tmp_path / name / f"clients/{client}/personal.safetensors" for name in ("all", "fewer")
        ]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_only_those_who_take_part_change(tmp_path):
    with create(tmp_path / "run", data=client_data(6), rounds=1, participation=0.5) as federation:
        before = {
            client: federation.personal(client)["head.weight"] for client in federation.clients
        }
        federation.train()
        changed = [
            client
            for client in federation.clients
            if not torch.equal(before[client], federation.personal(client)["head.weight"])
        ]
        took_part = federation.store.ledger.rows("SELECT client FROM replies ORDER BY client")
    assert len(changed) == 3
    assert changed == [row["client"] for row in took_part]


def test_training_again_to_the_same_round_does_nothing(tmp_path):
    with create(tmp_path / "run") as federation:
        federation.train(2)
        digests = tensor_digests(tmp_path / "run")
        federation.train(2)
        federation.train(1)
    assert tensor_digests(tmp_path / "run") == digests


def test_open_remembers_the_rounds_asked_for(tmp_path):
    with create(tmp_path / "run", rounds=2) as federation:
        federation.train()
    with reopen(tmp_path / "run") as federation:
        federation.train(3)
    with reopen(tmp_path / "run") as federation:
        assert federation.settings.rounds == 3
        assert federation.rounds == 3


def test_progress_tells_every_reply_and_every_round(tmp_path):
    seen = []
    with create(tmp_path / "run", rounds=2, evaluate_every=2) as federation:
        federation.train(callbacks=[AtProgress(seen.append)])
    assert [(p.round, p.replies) for p in seen] == [
        *((1, 1), (1, 2), (1, 3), (1, 3)),
        *((2, 1), (2, 2), (2, 3), (2, 3)),
    ]
    assert [p.loss is not None for p in seen] == [False] * 3 + [True] + [False] * 3 + [True]
    assert seen[3].accuracy is None
    assert 0 <= seen[7].accuracy <= 1


class Diverging(WithNorm):
    """Its shared tensors are not finite after the training of one client."""

    def forward(self, x):
        out = super().forward(x)
        return out * math.nan if self.training and x.mean() > 2.25 else out


def test_a_bad_reply_is_in_the_ledger_and_the_round_goes_on(tmp_path):
    with create(tmp_path / "run", model=Diverging, rounds=2) as federation:
        federation.train()
    status = read_status(tmp_path / "run")
    assert status["rounds"] == 2
    assert [(row["round"], row["client"]) for row in status["refused"]] == [(1, "c2"), (2, "c2")]
    assert "not finite" in status["refused"][0]["reason"]
    shared = read_file(tmp_path / "run/shared.safetensors")
    assert all(bool(torch.isfinite(tensor).all()) for tensor in shared.values())


def test_too_few_usable_replies_stop_the_run_and_are_in_the_ledger(tmp_path):
    with (
        create(tmp_path / "run", model=Diverging, min_replies=3) as federation,
        pytest.raises(PfedulError, match="Round 1 was not committed: 2 of 3"),
    ):
        federation.train()
    status = read_status(tmp_path / "run")
    assert status["rounds"] == 0
    assert [row["client"] for row in status["refused"]] == ["c2"]
    digests = tensor_digests(tmp_path / "run")
    assert digests["shared.safetensors"] == digests["init.safetensors"]


def test_evaluation_is_of_the_personal_model_on_the_clients_own_test_part(tmp_path):
    with create(tmp_path / "run") as federation:
        federation.train()
        score = federation.evaluate().clients["c1"]
        model = WithNorm().eval()
        model.load_state_dict({**federation.shared, **federation.personal("c1")})
    x, y = client_data()["c1"][1]
    with torch.no_grad():
        logits = model(x)
    assert score.accuracy == pytest.approx((logits.argmax(1) == y).float().mean().item())
    assert score.loss == pytest.approx(torch.nn.functional.cross_entropy(logits, y).item(), 1e-5)
    assert score.samples == 12


def test_a_model_that_does_not_fit_the_classes_is_refused(tmp_path):
    with pytest.raises(PfedulError, match="does not fit the 3 classes"):
        create(tmp_path / "run", model=lambda: WithNorm(classes=2))
    with pytest.raises(PfedulError, match=r"cannot be applied to samples of shape \(4,\)"):
        create(tmp_path / "run", model=lambda: WithNorm(inputs=5))
    with pytest.raises(PfedulError, match="returned str, not a torch"):
        create(tmp_path / "run", model=lambda: "resnet")
    assert not (tmp_path / "run").exists()


def test_models_that_cannot_work_are_refused_with_a_sentence(tmp_path):
    with pytest.raises(PfedulError, match="Give a function that makes the model"):
        create(tmp_path / "run", model=WithNorm())
    with pytest.raises(PfedulError, match="must return one tensor"):
        create(tmp_path / "run", model=Pair)
    with pytest.raises(PfedulError, match="cannot be trained on a single sample"):
        create(tmp_path / "run", batch_size=1)
    with pytest.raises(PfedulError, match="can never be met"):
        create(tmp_path / "run", min_replies=4)


class Pair(WithNorm):
    def forward(self, x):
        return super().forward(x), x


@pytest.mark.parametrize("frozen", ["body", "head"])
def test_a_part_that_its_author_froze_is_not_trained(frozen, tmp_path):
    def model():
        made = WithNorm()
        getattr(made, frozen).requires_grad_(False)
        return made

    with create(tmp_path / "run", model=model, personalization="fedrep") as federation:
        before = {**federation.shared, **federation.personal("c0")}
        federation.train()
        after = {**federation.shared, **federation.personal("c0")}
    weight = "body.0.weight" if frozen == "body" else "head.weight"
    other = "head.weight" if frozen == "body" else "body.0.weight"
    assert torch.equal(before[weight], after[weight])
    assert not torch.equal(before[other], after[other])


def test_a_model_in_double_precision(tmp_path):
    def model():
        return WithNorm().double()

    data = client_data()
    run = tmp_path / "run"
    with Federation.create(run, data=data, model=model, **QUICK) as federation:
        federation.train()
        assert federation.shared["body.0.weight"].dtype == torch.float64
    Federation.open(run, data=data, model=model).close()
    with pytest.raises(PfedulError, match="model is not the one"):
        Federation.open(run, data=data, model=WithNorm)


def test_another_personal_part_is_noticed(tmp_path):
    create(tmp_path / "run").close()
    with pytest.raises(PfedulError, match="'head"):
        Federation.open(tmp_path / "run", data=client_data(), model=lambda: WithNorm(classes=5))


def test_settings_reach_what_they_are_for(tmp_path):
    with (
        create(tmp_path / "bound", max_update_norm=1e-9) as federation,
        pytest.raises(PfedulError, match="update norm"),
    ):
        federation.train()
    digests = []
    for decay in (0.0, 0.5):
        with create(tmp_path / f"decay{decay}", weight_decay=decay) as federation:
            federation.train()
        digests.append(tensor_digests(tmp_path / f"decay{decay}"))
    assert digests[0] != digests[1]
    with pytest.raises(PfedulError, match="fewer than 100"):
        Federation.create(tmp_path / "small", clients=20, min_samples=100)


def test_fedbn_without_batch_normalisation_is_refused(tmp_path):
    with pytest.raises(PfedulError, match="BatchNorm"):
        Federation.create(tmp_path / "run", model="mlp", personalization="fedbn")


def test_nan_in_the_data_is_refused(tmp_path):
    data = client_data()
    data["c1"][0][0][3, 1] = math.nan
    with pytest.raises(PfedulError, match="NaN"):
        create(tmp_path / "run", data=data)


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a" * 65, "x\n", "C0"])
def test_client_ids_play_no_tricks_with_paths(name, tmp_path):
    data = client_data()
    data[name] = data["c1"]
    with pytest.raises(PfedulError):
        create(tmp_path / "run", data=data)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_client_has_no_personal_tensors(tmp_path):
    with create(tmp_path / "run") as federation, pytest.raises(PfedulError, match="no client"):
        federation.personal("../c0")


def test_a_folder_in_use_is_not_overwritten(tmp_path):
    create(tmp_path / "run").close()
    with pytest.raises(PfedulError, match="already holds a run"):
        create(tmp_path / "run")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/thesis.txt").write_text("years of work")
    with pytest.raises(PfedulError, match="not empty and not a run"):
        create(tmp_path / "notes")
    (tmp_path / "empty").mkdir()
    create(tmp_path / "empty").close()


def test_what_a_later_call_may_not_change(tmp_path):
    create(tmp_path / "run").close()
    with pytest.raises(PfedulError, match=r"--lr 0.01, which cannot become 0.5"):
        reopen(tmp_path / "run", lr=0.5)


def test_unknown_settings_are_refused(tmp_path):
    with pytest.raises(PfedulError, match="Unknown key 'learning_rate'"):
        create(tmp_path / "run", learning_rate=0.1)


def test_the_digits_federation_of_the_demo_learns(tmp_path):
    settings = {**QUICK, "personalization": "fedrep", "rounds": 3, "lr": 0.05, "batch_size": 32}
    with Federation.create(tmp_path / "run", clients=5, seed=1, **settings) as federation:
        federation.train()
        assert federation.evaluate().mean > 0.8
