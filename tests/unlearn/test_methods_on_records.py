"""FedEraser, FedRecovery, SIFU and one-shot exclusion against paper and pencil."""

import math

import numpy as np
import pytest
import torch

from helpers import linear
from helpers.at_request import replace_work
from helpers.forgetting_kill import TARGET, Deep, copied, deep, deep_again, trained
from helpers.three_clients import POINTS, Pencil, body_step, federation, head_step, mean
from pfedul import Federation, PfedulError
from pfedul.base.randomness import derive_seed
from pfedul.base.tensorfile import read_file
from pfedul.run import training
from pfedul.unlearn.methods import METHODS
from pfedul.unlearn.methods.federaser import calibrated

OTHERS = ("bob", "cat")
ROUNDS = 3


def body_after(run, method, *targets, allow_unchanged=False, **settings):
    """The weight after forgetting (ann, if nobody is named), and the outcome."""
    with federation(run, rounds=ROUNDS, **settings) as made:
        made.train()
        options = {"method": method, "allow_unchanged": allow_unchanged}
        outcome = made.forget(*(targets or ("ann",)), **options)
        return made.shared["body.weight"].item(), outcome


def replayed(pencil, epochs=1, interval=1, against="before"):
    """FedEraser for one weight: a length, and the sign of the new direction."""
    w = mean({name: pencil.uploads[0][name] for name in OTHERS})
    for number in range(1 + interval, ROUNDS + 1, interval):
        moved = {}
        for name in OTHERS:
            new = w
            for _ in range(epochs):
                new = body_step(new, pencil.heads[name], name)
            start = pencil.weights[number - (1 if against == "before" else 0)]
            length = abs(pencil.uploads[number - 1][name] - start)
            moved[name] = w + math.copysign(length, new - w)
        w = mean(moved)
    return w


@pytest.mark.parametrize("interval", [1, 2, 3])
@pytest.mark.parametrize("against", ["before", "after"])
def test_federaser_by_hand(interval, against, tmp_path):
    method = f"federaser:interval={interval},against={against}"
    found, outcome = body_after(tmp_path / "run", method)
    assert found == pytest.approx(replayed(Pencil(ROUNDS), 1, interval, against), rel=1e-5)
    assert outcome.rounds == len(range(1, ROUNDS + 1, interval)) - 1


def stepped(model, name):
    """Body and head of the model of one weight after one step of a client, both shared."""
    w, head = model[0], tuple(model[1:])
    return np.array([body_step(w, head, name), *head_step(w, head, name)])


def mean_model(models):
    return np.average(list(models.values()), axis=0, weights=[POINTS[name][2] for name in models])


def stretched(change, old, norms):
    """The new change with the length of the old one, for each of the two tensors or for all."""
    parts = [slice(0, 1), slice(1, 3)] if norms == "tensor" else [slice(0, 3)]
    made = np.zeros(3)
    for part in parts:
        made[part] = change[part] * np.linalg.norm(old[part]) / np.linalg.norm(change[part])
    return made


@pytest.mark.parametrize("norms", ["tensor", "whole"])
def test_federaser_by_hand_on_two_tensors(norms, tmp_path):
    """FedAvg: the head is shared as well, and lengths of tensors are not those of the whole."""
    before, olds = np.array([1.0, 0.5, -0.25]), []
    for _ in range(ROUNDS):
        olds.append({name: stepped(before, name) - before for name in POINTS})
        before = before + mean_model(olds[-1])
    found = np.array([1.0, 0.5, -0.25]) + mean_model({name: olds[0][name] for name in OTHERS})
    for old in olds[1:]:
        news = {name: stepped(found, name) - found for name in OTHERS}
        found = found + mean_model({n: stretched(news[n], old[n], norms) for n in OTHERS})
    with federation(tmp_path / "run", rounds=ROUNDS, personalization="fedavg") as made:
        made.train()
        made.forget("ann", method=f"federaser:interval=1,norms={norms}")
        after = torch.cat([tensor.flatten() for tensor in made.shared.values()])
    assert after.tolist() == pytest.approx(found.tolist(), rel=1e-5)


@pytest.mark.parametrize(("rounds", "replayed"), [(1, 0), (4, 1), (12, 5)])
def test_federaser_replays_every_second_round_after_the_first(rounds, replayed, tmp_path):
    with federation(tmp_path / "run", rounds=rounds) as made:
        made.train()
        assert made.forget("ann", method="federaser").rounds == replayed


def test_the_first_step_of_federaser_is_the_first_round_without_the_target(tmp_path):
    """FedAccum's first step, and the model of round 1 minus the target's residual."""
    found, outcome = body_after(tmp_path / "run", "federaser:interval=9")
    pencil = Pencil(ROUNDS)
    assert found == pytest.approx(pencil.weights[1] - pencil.residual(1, "ann"), rel=1e-6)
    assert outcome.rounds == 0


def test_lengths_of_tensors_or_of_the_whole_update():
    before = {"a": torch.zeros(2), "b": torch.zeros(1)}
    after = {"a": torch.tensor([0.3, 0.4]), "b": torch.tensor([1.2])}
    by_tensor = calibrated(before, after, {"a": 5.0, "b": 12.0}, "tensor")
    assert by_tensor["a"].tolist() == pytest.approx([3, 4])
    assert by_tensor["b"].tolist() == pytest.approx([12])
    whole = calibrated(before, after, {"a": 13.0, "b": 0.0}, "whole")
    assert [*whole["a"].tolist(), *whole["b"].tolist()] == pytest.approx([3, 4, 12])


def test_an_update_without_a_direction_stays_without_one():
    same = {"a": torch.ones(2)}
    assert calibrated(same, same, {"a": 5.0}, "tensor")["a"].tolist() == [1, 1]


def test_federaser_trains_the_share_of_epochs_that_is_asked_for_rounded_up(tmp_path, monkeypatch):
    seen = []

    def watch(train):
        def watched(job, how, extra):
            seen.append(how["epochs"])
            return train(job, how, extra)

        return watched

    replace_work(monkeypatch, "train-shared", watch)
    body_after(tmp_path / "run", "federaser:interval=2,ratio=0.5", local_epochs=3)
    assert seen == [2, 2]


def test_statistics_of_a_replay_are_the_plain_mean_of_what_clients_send(tmp_path):
    """With lengths of zero no parameter moves, and statistics do."""
    run = trained(tmp_path / "run", record="norms", personalization="fedavg")
    zeros = {}
    for file in (run / "records/norms").iterdir():
        rows = read_file(file)
        zeros[f"records/norms/{file.name}"] = {
            k: v if k == "(rounds)" else v * 0 for k, v in rows.items()
        }
    _overwrite(run, zeros)
    with deep_again(run) as made:
        firsts = [read_file(run / f"records/norms-first/c{n}.safetensors") for n in (0, 2, 3)]
        made.forget(TARGET, method="federaser:interval=2,ratio=1")
        for name in made.bench.split.parameter_names:
            expected = torch.stack([one[name] for one in firsts]).double().mean(0)
            torch.testing.assert_close(made.shared[name], expected.float())
        moved = torch.stack([one["norm.running_mean"] for one in firsts]).mean(0)
        assert not torch.allclose(made.shared["norm.running_mean"], moved)


def _overwrite(run, tensors):
    """Put other tensors in the place of files of the run, as a commit would."""
    with deep_again(run) as made:
        for name, content in tensors.items():
            made.store.stage(name, content)
        made.store.keep([])
        made.store.commit()


def test_a_round_that_nobody_who_remains_took_part_in_is_not_replayed(tmp_path):
    with deep(tmp_path / "run", record="norms", participation=0.25, rounds=4) as made:
        made.train()
        rows = made.store.ledger.rows("SELECT round, client FROM replies ORDER BY round")
        by_round = {row["round"]: row["client"] for row in rows}
        target = by_round[2]
        others = sum(client != target for number, client in by_round.items() if number > 1)
        outcome = made.forget(target, method="federaser:interval=1")
        assert outcome.rounds == others < 3


def test_a_second_request_replays_without_both(tmp_path):
    """The others' norms stay: after ann and bob only cat's own path is left."""
    with federation(tmp_path / "run", rounds=ROUNDS) as made:
        made.train()
        made.forget("ann", method="federaser:interval=9")
        made.forget("bob", method="federaser:interval=9")
        found = made.shared["body.weight"].item()
    assert found == pytest.approx(Pencil(ROUNDS).uploads[0]["cat"], rel=1e-6)


def test_no_replay_after_a_removal_that_leaves_a_part_of_the_target(tmp_path):
    """The others' uploads of round 1 would tell which part."""
    with federation(tmp_path / "run", rounds=ROUNDS) as made:
        made.train()
        made.forget("ann", method="none", allow_unchanged=True)
        with pytest.raises(PfedulError, match="norms record was erased with an earlier request"):
            made.forget("bob", method="federaser")


def test_lengths_from_the_mean_of_a_round_are_erased_with_the_first_target(tmp_path):
    with federation(tmp_path / "run", rounds=ROUNDS) as made:
        made.train()
        made.forget("ann", method="federaser:against=after")
        with pytest.raises(PfedulError, match="use against=before"):
            made.forget("bob", method="federaser:against=after")
        made.forget("bob", method="federaser")


# FedRecovery


@pytest.mark.parametrize("gamma", [1.0, 3.0])
def test_fedrecovery_by_hand(gamma, tmp_path):
    found, outcome = body_after(tmp_path / "run", f"fedrecovery:gamma={gamma}")
    assert found == pytest.approx(_recovered(gamma, "ann"), rel=1e-6)
    assert outcome.rounds == outcome.bytes_uploaded == outcome.bytes_broadcast == 0


def test_fedrecovery_of_two_targets_is_that_of_both_together(tmp_path):
    found, _ = body_after(tmp_path / "run", "fedrecovery:gamma=3", "ann", "bob")
    assert found == pytest.approx(_recovered(3.0, "ann", "bob"), rel=1e-6)
    apart = Pencil(ROUNDS).weights[-1] - sum(
        Pencil(ROUNDS).weights[-1] - _recovered(3.0, name) for name in ("ann", "bob")
    )
    assert abs(found - apart) > 1e-4


def test_the_sum_of_residuals_is_the_mean_times_the_rounds(tmp_path):
    found, _ = body_after(tmp_path / "run", "fedrecovery:residuals=sum,gamma=2")
    assert found == pytest.approx(_recovered(2.0 * ROUNDS, "ann"), rel=1e-6)
    assert METHODS["fedrecovery"].about.variants == ("fedrecovery:residuals=sum",)


SOME_ABSENT = {2: ["ann", "cat"], 3: ["bob", "cat"]}


def test_where_somebody_was_absent_residuals_are_added_one_by_one_and_a_note_says_so(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(training, "participants", lambda _, n: SOME_ABSENT.get(n, list(POINTS)))
    found, outcome = body_after(tmp_path / "run", "fedrecovery:gamma=3", "ann", "bob")
    pencil, numbers = Pencil(ROUNDS, SOME_ABSENT), range(1, ROUNDS + 1)
    z = sum(pencil.square(n) for n in numbers)
    each = [pencil.square(n) * pencil.residual(n, u) for n in numbers for u in ("ann", "bob")]
    assert found == pytest.approx(pencil.weights[-1] - 3 * sum(each) / z, rel=1e-6)
    assert any("were added one by one" in note for note in outcome.notes)


def test_of_one_target_no_other_sum_is_read(tmp_path):
    """Who else was there when does not matter to it: the others' files need not be whole."""
    with federation(tmp_path / "run", rounds=ROUNDS) as made:
        made.train()
        for name in OTHERS:
            (tmp_path / f"run/records/sums/{name}.safetensors").write_bytes(b"not to be read")
        outcome = made.forget("ann", method="fedrecovery")
        found = made.shared["body.weight"].item()
    assert found == pytest.approx(_recovered(1.0, "ann"), rel=1e-6)
    assert not any("one by one" in note for note in outcome.notes)


def _recovered(gamma, *targets):
    pencil, numbers = Pencil(ROUNDS), range(1, ROUNDS + 1)
    z = sum(pencil.square(n) for n in numbers)
    step = sum(pencil.square(n) * pencil.residual(n, *targets) for n in numbers) / z
    return pencil.weights[-1] - gamma * step


def test_fedrecovery_reckons_without_a_target_that_never_took_part(tmp_path):
    with federation(tmp_path / "run", rounds=ROUNDS) as made:
        made.known_data = {**made.known_data, "dan": made.known_data["cat"]}
        made.train()
        made.admit("dan")
        outcome = made.forget("ann", "bob", "dan", method="fedrecovery:gamma=3")
        found = made.shared["body.weight"].item()
    assert found == pytest.approx(_recovered(3.0, "ann", "bob"), rel=1e-6)
    assert any("dan: took part in no round" in note for note in outcome.notes)


def test_fedrecovery_says_of_every_outcome_that_nothing_is_certified(tmp_path):
    _, outcome = body_after(tmp_path / "run", "fedrecovery:sigma=0.1")
    assert any(note.startswith("no certificate") for note in outcome.notes)


@pytest.mark.parametrize("scale", ["same", "tensor"])
def test_noise_is_on_parameters_alone_and_of_the_size_that_was_asked_for(scale, tmp_path):
    run = trained(tmp_path / "run", record="sums", personalization="fedavg")
    with deep_again(run) as made:
        before = {name: tensor.clone() for name, tensor in made.shared.items()}
        made.forget(TARGET, method=f"fedrecovery:gamma=0,sigma=0.5,scale={scale}")
        for name in ("norm.running_mean", "norm.running_var"):
            assert torch.equal(made.shared[name], before[name])
        parameters = [name for name in before if name in made.bench.split.parameter_names]
        units = [before[n].std(correction=0) if scale == "tensor" else 1.0 for n in parameters]
        drawn = [
            ((made.shared[name] - before[name]) / unit).flatten()
            for name, unit in zip(parameters, units, strict=True)
            if float(unit)
        ]
    assert torch.cat(drawn).std().item() == pytest.approx(0.5, rel=0.2)
    assert abs(torch.cat(drawn).mean().item()) < 0.15


# SIFU

SIGMA = 1e-9


def _epsilon(bound):
    return bound * math.sqrt(2 * math.log(1.25 / 0.01)) / SIGMA


def _psi(name, last):
    return sum(abs(Pencil(ROUNDS).residual(n, name)) for n in range(1, last + 1))


@pytest.mark.parametrize("back_to", [0, 1, 2, 3])
@pytest.mark.parametrize("rounds", [None, 0, 1])
def test_sifu_goes_back_to_where_the_bound_says_and_trains_on_without_the_target(
    back_to, rounds, tmp_path
):
    bound = (_psi("ann", back_to) + _psi("ann", back_to + 1)) / 2 if back_to < ROUNDS else 99.0
    method = "sifu" if rounds is None else f"sifu:rounds={rounds}"
    settings = {"psi_sigma": SIGMA, "psi_epsilon": _epsilon(bound)}
    stays = back_to == ROUNDS and rounds == 0
    found, outcome = body_after(tmp_path / "run", method, allow_unchanged=stays, **settings)
    pencil = Pencil(ROUNDS)
    w, more = pencil.weights[back_to], max(1, ROUNDS - back_to) if rounds is None else rounds
    for _ in range(more):
        w = mean({name: body_step(w, pencil.heads[name], name) for name in OTHERS})
    assert found == pytest.approx(w, rel=1e-6)
    assert outcome.rounds == more
    assert ("retraining" in outcome.notes[0]) == (back_to == 0)


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_rounds_of_sifu_are_ordinary_ones(rounds, tmp_path):
    """Two local epochs with momentum, and clients of unequal size."""
    others = [client for client in linear.SIZES if client != linear.TARGET]
    hardly = {"psi_sigma": 1e-15, "psi_epsilon": 1e18}
    with linear.federation(tmp_path / "run", record="psi", **hardly) as made:
        made.train()
        expected = linear.weight(made)
        for _ in range(rounds):
            expected = linear.fedavg_round(expected, others, linear.EPOCHS)
        made.forget(linear.TARGET, method=f"sifu:rounds={rounds}")
        linear.assert_close(made.shared[linear.NAME], expected)


NO_STATISTICS = (
    "normalisation statistics and other buffers are not covered: they get no noise, and no bound "
    "counts them"
)
NO_PERSONAL = "personal parts of the others are not covered"
SIFU_COVERS = {
    ("fedavg", 0): f"the shared parameters; {NO_STATISTICS}",
    ("fedavg", 1): f"the shared parameters; {NO_STATISTICS}",
    ("ditto", 1): f"the shared parameters; {NO_STATISTICS}; {NO_PERSONAL}",
    ("fedper", 0): f"the shared parameters; {NO_STATISTICS}; {NO_PERSONAL}",
    ("fedbn", 0): f"the shared parameters; {NO_PERSONAL}",
    ("fedper", 1): "the parameters of the noised start alone: the 1 rounds after it train through "
    "personal parts that come from rounds with the target",
    ("fedbn", 1): "the parameters of the noised start alone",
}
NEVER_PASSED, AT_ONCE = {"psi_epsilon": 1e9}, {"psi_epsilon": 1e-9}


def covered(run, method):
    """What SIFU says that its bound covers; and the shared tensors before and after."""
    with deep_again(run) as made:
        before = {name: tensor.clone() for name, tensor in made.shared.items()}
        notes = made.forget(TARGET, method=method).notes
        after = dict(made.shared)
    (said,) = [note for note in notes if note.startswith("(epsilon, delta)")]
    return said.removeprefix("(epsilon, delta), where losses are convex, covers "), before, after


@pytest.mark.parametrize(("personalization", "rounds"), SIFU_COVERS)
def test_sifu_says_what_its_bound_covers(personalization, rounds, tmp_path):
    settings = {"record": "psi", "personalization": personalization, **NEVER_PASSED}
    run = trained(tmp_path / "run", **settings)
    said, _, _ = covered(run, f"sifu:rounds={rounds}")
    expected = SIFU_COVERS[personalization, rounds]
    assert said.startswith(expected) if "alone" in expected else said == expected


@pytest.mark.parametrize("personalization", ["fedavg", "fedper", "ditto", "fedbn"])
@pytest.mark.parametrize("settings", [NEVER_PASSED, AT_ONCE])
def test_sifu_covers_no_tensor_that_is_as_it_was_with_the_target(
    personalization, settings, tmp_path
):
    """What is said to be covered has noise, or is as it was before anybody trained."""
    run = trained(tmp_path / "run", record="psi", personalization=personalization, **settings)
    initial = read_file(run / "init.safetensors")
    said, before, after = covered(run, "sifu:rounds=0")
    values = {name: tensor for name, tensor in after.items() if tensor.is_floating_point()}
    same = {name for name, tensor in values.items() if torch.equal(tensor, before[name])}
    seen = {name for name in same if not torch.equal(before[name], initial[name])}
    assert bool(seen) == (NO_STATISTICS in said)
    assert not any(name.endswith(("weight", "bias")) for name in seen)
    assert bool(seen) == (settings is NEVER_PASSED and personalization != "fedbn")


class Remembering(Deep):
    """With a buffer that is no statistic of a normalisation, and that the outputs depend on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(4))

    def forward(self, x):
        if self.training:
            self.centre.lerp_(x.detach().mean(0), 0.1)
        return super().forward(x - self.centre)


@pytest.mark.parametrize("rounds", [0, 1])
def test_rounds_that_read_an_uncovered_buffer_are_not_covered(rounds, tmp_path):
    kind = {"model": Remembering, "record": "psi", "personalization": "fedavg"}
    with deep(tmp_path / "run", **kind, **NEVER_PASSED) as made:
        made.train()
        notes = made.forget(TARGET, method=f"sifu:rounds={rounds}").notes
    assert ("noised start alone" in notes[1]) == (rounds > 0)
    assert ("train through buffers" in notes[1]) == (rounds > 0)


@pytest.mark.parametrize("personalization", ["fedavg", "ditto", "fedper"])
def test_what_sifu_covers_does_not_depend_on_personal_parts(personalization, tmp_path):
    """The same removal with other personal parts: shared tensors are the same where it says so."""
    run = trained(tmp_path / "run", record="psi", personalization=personalization)
    found = []
    for turn in range(2):
        copy = copied(run, tmp_path / str(turn))
        others = {}
        for file in (copy / "clients").rglob("personal.safetensors") if turn else ():
            moved = {n: t + 1 if n == "head.bias" else t for n, t in read_file(file).items()}
            place = file.relative_to(copy).as_posix()
            others[place] = {**moved, "head.weight": moved["head.weight"].flip(0)}
        _overwrite(copy, others)
        with deep_again(copy) as made:
            made.forget(TARGET, method="sifu:rounds=1")
            found.append(made.shared)
    same = all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())
    assert same == (personalization != "fedper")


def test_the_noise_of_sifu_is_that_of_its_record(tmp_path):
    found, _ = body_after(tmp_path / "run", "sifu:rounds=0", psi_sigma=0.25)
    source = torch.Generator().manual_seed(derive_seed(0, "unlearn", 1, "noise"))
    drawn = torch.randn(1, 1, generator=source, dtype=torch.float64).item()
    assert found == pytest.approx(Pencil(ROUNDS).weights[-1] + 0.25 * drawn, rel=1e-6)


def test_several_targets_go_back_to_the_earliest_place(tmp_path):
    bound = (_psi("ann", 1) + _psi("ann", 2)) / 2
    places = [next((n for n in range(3) if _psi(c, n + 1) > bound), 3) for c in ("ann", "bob")]
    settings = {"psi_sigma": SIGMA, "psi_epsilon": _epsilon(bound)}
    found, _ = body_after(tmp_path / "run", "sifu:rounds=0", "ann", "bob", **settings)
    assert len(set(places)) == 2
    assert found == pytest.approx(Pencil(ROUNDS).weights[min(places)], rel=1e-6)


# One-shot exclusion


def test_exclusion_by_hand(tmp_path):
    found, _ = body_after(tmp_path / "run", "exclusion")
    pencil = Pencil(ROUNDS)
    assert found == pytest.approx(mean({n: pencil.uploads[-1][n] for n in OTHERS}), rel=1e-6)
    assert found == pytest.approx(pencil.weights[-1] - pencil.residual(ROUNDS, "ann"), rel=1e-6)


def test_exclusion_of_a_client_that_was_not_in_the_last_round_changes_nothing(tmp_path):
    with deep(tmp_path / "run", record="uploads", participation=0.5, rounds=4) as made:
        made.train()
        rows = made.store.ledger.rows("SELECT client FROM replies WHERE round = 4")
        absent = sorted(set(made.clients) - {row["client"] for row in rows})[0]
        before = {name: tensor.clone() for name, tensor in made.shared.items()}
        outcome = made.forget(absent, method="exclusion", allow_unchanged=True)
        for name, tensor in before.items():
            torch.testing.assert_close(made.shared[name], tensor)
    assert outcome.notes == (f"{absent}: did not take part in the last round",)


def test_where_only_the_target_was_in_the_last_round_nothing_can_be_left_out(tmp_path):
    with deep(tmp_path / "run", record="uploads", participation=0.25) as made:
        made.train()
        row = made.store.ledger.rows("SELECT client FROM replies WHERE round = 3")[0]
        with pytest.raises(PfedulError, match="Nobody but the targets took part"):
            made.forget(row["client"], method="exclusion")


# Records that an earlier request took with it


@pytest.mark.parametrize("method", ["fedrecovery", "sifu", "exclusion"])
def test_a_record_that_went_with_an_earlier_request_is_built_anew_by_training(method, tmp_path):
    run = trained(tmp_path / "run", record="all")
    with deep_again(run) as made:
        made.forget(TARGET, method="none", allow_unchanged=True)
        with pytest.raises(PfedulError, match=r"was erased with an earlier request; train on"):
            made.forget("c0", method=method)
        made.train(5)
        outcome = made.forget("c0", method=method)
    words = {"fedrecovery": "last 2 of 5 rounds", "sifu": "began again after round 3"}
    assert words.get(method, "") in " ".join(outcome.notes)


def test_federaser_cannot_do_without_the_first_round(tmp_path):
    with deep_again(trained(tmp_path / "run", record="all")) as made:
        made.forget(TARGET, method="none", allow_unchanged=True, forget_records="all")
        made.train(5)
        with pytest.raises(PfedulError, match="replays training from round 1; choose another"):
            made.forget("c0", method="federaser")


def test_all_of_them_on_a_real_run(tmp_path):
    """Digits: the methods run, and the others are still served far better than by chance."""
    options = {"clients": 4, "samples": 400, "model": "mlp", "lr": 0.05}
    for name in ("federaser", "fedrecovery", "sifu", "exclusion"):
        run = tmp_path / name
        with Federation.create(run, record=name, engine="inline", **options) as made:
            made.train(4)
            outcome = made.forget(made.clients[0], method=name)
        # About 0.8 or more for all of them, where one of ten classes at random is 0.1.
        assert sum(outcome.after.values()) / 3 > 0.5
