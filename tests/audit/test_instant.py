"""Evidence without oracles in real removals: what leaks, what is left, what is refused."""

import json

import numpy as np
import pytest

from helpers.attacker import sizes_that_give
from helpers.auditing import interrupt_at
from helpers.commands import call
from helpers.forgetting_kill import TARGET, Deep, copied, deep, deep_again, trained
from helpers.told import AtStage
from helpers.toys import client_data
from pfedul import Federation, PfedulError
from pfedul.audit.ask.samples import about
from pfedul.audit.instant import LEVEL, MOST_MODELS, Witness, exam_of, seen
from pfedul.audit.state import served
from pfedul.report.material import read_material
from pfedul.status import read_status
from pfedul.store.audits import differences
from pfedul.unlearn.outcome import spent

NOISY = {
    "partition": "natural",
    "model": "mlp:hidden=96,depth=2",
    "rounds": 6,
    "local_epochs": 8,
    "lr": 0.05,
    "engine": "inline",
    "record": "fisher+contributions",
}
EXCLUDE = {"correction": "exclude", "strength": 0.7, "repair_rounds": 0}


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """Samples of which two in five have a label that can only be learnt by heart."""
    stream, count = np.random.default_rng(0), 400
    x = stream.normal(size=(3 * count, 12)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] > 0)
    wrong = stream.random(len(y)) < 0.4
    y[wrong] = stream.integers(0, 4, wrong.sum())
    owners = np.repeat(["c0", "c1", "c2"], count)
    file = tmp_path_factory.mktemp("noise") / "noise.npz"
    np.savez(file, x=x, y=y, client=owners)
    return file


@pytest.fixture(scope="module")
def leaky(noise, tmp_path_factory):
    """A run whose clients are remembered."""
    run = tmp_path_factory.mktemp("leaky") / "run"
    how = {**NOISY, "personalization": "fedper"}
    with Federation.create(run, data=f"npz:{noise}", **how) as federation:
        federation.train()
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Small runs with every personalisation; their owner vouches for the split."""
    folder = tmp_path_factory.mktemp("small")
    names = ("fedavg", "fedper", "ditto", "fedbn")
    return {name: trained(folder / name, personalization=name, random_split=True) for name in names}


def forgotten(run, to, *targets, **options):
    with Federation.open(copied(run, to)) as federation:
        return federation.forget(*(targets or ("c0",)), **options)


# Where something leaks


def test_a_removal_that_does_nothing_is_not_forgotten_and_one_that_excludes_is_less(
    leaky, tmp_path
):
    paper = forgotten(leaky, tmp_path / "paper", correction="paper", layers="all").audit
    assert paper["level"] == LEVEL
    assert paper["verdict"]["verdict"] == "not forgotten"
    assert paper["removed"]["value"] == pytest.approx(0, abs=0.1)
    stale = next(row for row in paper["tests"] if row["surface"] == "stale")
    assert stale["figures"]["untouched"]["value"] > 0.65
    assert stale["finding"] == "leak"
    excluded = forgotten(leaky, tmp_path / "exclude", **EXCLUDE).audit
    assert excluded["removed"]["value"] > 0.6
    assert excluded["verdict"]["verdict"] in ("forgotten", "over-forgotten")
    low, high = excluded["removed"]["interval"]
    assert low < excluded["removed"]["value"] < high
    assert excluded["smallest_visible"] < 0.2
    assert excluded["samples"] == {"members": 200, "nonmembers": 80, "fitting": 108}


@pytest.mark.parametrize(
    ("removal", "met", "missed"),
    [
        ("--strength 0.7 --repair-rounds 0", ("partly", "no-leak", "forgotten"), ()),
        ("--correction paper --layers all", (), ("partly", "no-leak", "forgotten")),
    ],
    ids=["forgotten", "not forgotten"],
)
def test_rehearse_exits_with_3_unless_the_verdict_is_what_was_required(
    removal, met, missed, leaky, tmp_path
):
    run = copied(leaky, tmp_path / "run")
    asked = ("rehearse", run, "--client", "c0", *removal.split())
    assert call(*asked).exit_code == 0
    for required in (*met, *missed):
        result = call(*asked, "--require", required)
        assert result.exit_code == (3 if required in missed else 0), result.output
        assert (f"--require asks for '{required}'" in result.stderr) == (required in missed)
        assert "Verdict: " in result.stdout


def test_the_removal_itself_is_the_same_to_the_bit_and_its_cost_is_booked_apart(leaky, tmp_path):
    watched = forgotten(leaky, tmp_path / "watched", **EXCLUDE)
    alone = forgotten(leaky, tmp_path / "alone", audit=False, **EXCLUDE)
    assert alone.audit is None
    assert "audit" not in alone.stages
    for name in ("shared_sha256_after", "state_sha256_after", "before", "after", "erased"):
        assert getattr(watched, name) == getattr(alone, name)
    removal = spent(watched.stages)
    assert removal.cpu_seconds == pytest.approx(
        sum(watched.stages[name].cpu_seconds for name in alone.stages if name != "evaluation")
    )
    assert watched.stages["audit"].cpu_seconds > 0


def test_it_is_kept_and_shown(leaky, tmp_path):
    run = tmp_path / "run"
    outcome = forgotten(leaky, run, **EXCLUDE).as_json()
    assert json.loads(json.dumps(outcome["audit"])) == outcome["audit"]
    shown = read_status(run)["requests"][0]["audit"]
    assert shown["verdict"] == outcome["audit"]["verdict"]["verdict"]
    assert shown["removed"] == outcome["audit"]["removed"]
    material = read_material(run)
    assert material["evidence"]["kind"] == "removal"
    assert material["evidence"]["tests"] == outcome["audit"]["tests"]
    assert material["applies"] == {"holds": True, "differences": []}
    text = json.dumps(outcome["audit"])
    assert all(f'"{client}"' not in text for client in ("c0", "c1", "c2"))


def test_an_interrupted_audit_leaves_the_request_pending_and_the_next_call_finishes(
    leaky, tmp_path
):
    once = forgotten(leaky, tmp_path / "once", **EXCLUDE)
    for done in (1, 2):
        run = copied(leaky, tmp_path / f"run-{done}")
        with Federation.open(run) as federation:
            with pytest.raises(KeyboardInterrupt):
                federation.forget("c0", callbacks=[AtStage(interrupt_at("audit", done))], **EXCLUDE)
            assert "c0" in federation.clients
            again = federation.forget("c0", **EXCLUDE)
        assert again.state_sha256_after == once.state_sha256_after
        assert again.audit == once.audit


def test_repair_is_part_of_what_is_looked_at(leaky, tmp_path):
    before = forgotten(leaky, tmp_path / "none", **EXCLUDE).audit
    after = forgotten(leaky, tmp_path / "one", **{**EXCLUDE, "repair_rounds": 1}).audit
    assert before["tests"] != after["tests"]
    untouched = [[row["figures"]["untouched"] for row in one["tests"]] for one in (before, after)]
    assert untouched[0] == untouched[1]


# Rehearsed


def test_a_rehearsal_is_instant_unless_told_otherwise_and_foretells_the_removal(leaky, tmp_path):
    run = copied(leaky, tmp_path / "run")
    with Federation.open(run) as federation:
        audit = federation.rehearse("c0", **EXCLUDE)
        outcome = federation.forget("c0", **EXCLUDE)
    assert audit.evidence["level"] == "instant"
    assert audit.evidence["oracles"] == []
    assert not (run / "oracles").exists()
    assert differences(audit.evidence, outcome.as_json()) == []
    assert audit.evidence["tests"] == outcome.audit["tests"]
    assert audit.evidence["verdict"] == outcome.audit["verdict"]
    assert audit.evidence["command"].endswith("--level instant")
    assert audit.evidence["cost"]["retrain_cpu_seconds"] is None


def test_a_number_of_oracles_and_no_oracles_do_not_go_together(leaky, tmp_path):
    words = "has no oracles; leave out their number"
    run = copied(leaky, tmp_path / "run")
    with Federation.open(run) as federation, pytest.raises(PfedulError, match=words):
        federation.rehearse("c0", level="instant", oracles=2)


# Every personalisation


@pytest.mark.parametrize(
    ("name", "surfaces"),
    [
        ("fedavg", ["shared", "probe"]),
        ("fedper", ["remaining", "stale", "probe"]),
        ("ditto", ["remaining", "shared", "probe"]),
        ("fedbn", ["remaining", "stale", "probe"]),
    ],
)
@pytest.mark.parametrize("targets", [(TARGET,), (TARGET, "c3")])
def test_every_personalisation_has_its_surfaces(name, surfaces, targets, runs, tmp_path):
    with deep_again(copied(runs[name], tmp_path / "run"), random_split=True) as federation:
        audit = federation.forget(*targets).audit
    assert [row["surface"] for row in audit["tests"]] == surfaces
    assert audit["samples"]["nonmembers"] == about(12 * len(targets))


def test_each_target_is_asked_through_its_own_head(runs, tmp_path):
    """With the heads of two targets swapped, the stale surface and no other one changes."""
    with deep_again(copied(runs["fedper"], tmp_path / "run"), random_split=True) as federation:
        targets, rest = (TARGET, "c3"), {c: federation.personal(c) for c in ("c0", "c2")}
        exam = exam_of(federation, targets)
        one, two = (federation.personal(target) for target in targets)

        def scores(*heads):
            stale = dict(zip(targets, heads, strict=True))
            state = served(federation.clusters, federation.shared, rest, stale)
            return seen(federation.bench, exam, state)

        own, swapped, alone = scores(one, two), scores(two, one), scores(one, one)
    changed = [place[0] for place in own if (own[place] != swapped[place]).any()]
    assert changed == ["stale"]
    first = exam.whose == 0
    assert (alone["stale", "threshold"][0, first] == own["stale", "threshold"][0, first]).all()


def test_where_every_model_costs_a_pass_only_a_few_are_asked(runs, tmp_path):
    for name, count in (("fedper", 3), ("fedbn", MOST_MODELS)):
        with deep_again(copied(runs[name], tmp_path / name), random_split=True) as federation:
            assert len(exam_of(federation, (TARGET,)).models) == count


# Refused


def test_own_data_are_judged_only_if_their_owner_vouches_for_the_split(tmp_path):
    run = trained(tmp_path / "run")
    with deep_again(copied(run, tmp_path / "one")) as federation:
        audit = federation.forget(TARGET).audit
    assert audit["verdict"]["verdict"] == "not enough evidence"
    assert "random_split=True" in audit["verdict"]["sentence"]
    assert audit["tests"] == []
    assert audit["removed"] is None
    words = "say so with pfedul train RUN --random-split"
    with deep_again(run) as federation, pytest.raises(PfedulError, match=words):
        federation.rehearse(TARGET)
    with deep_again(run, random_split=True) as federation:
        assert federation.forget(TARGET).audit["tests"]


def test_a_client_with_a_planted_backdoor_is_not_judged(tmp_path):
    how = {"clients": 4, "samples": 240, "model": "mlp:hidden=8", "partition": "iid", "rounds": 1}
    planted = {"plant_backdoor": "client-00", "engine": "inline", "local_epochs": 1}
    with Federation.create(tmp_path / "run", data="digits", **how, **planted) as federation:
        federation.train()
        assert (
            "backdoor"
            in Witness(federation, ("client-00",))(federation.shared)["verdict"]["sentence"]
        )
        assert Witness(federation, ("client-01",))(federation.shared)["tests"]


def test_too_few_samples_are_refused_in_one_sentence(tmp_path):
    data = client_data(4)
    (train, test) = data[TARGET]
    data[TARGET] = train, tuple(part[:8] for part in test)
    with Federation.create(
        tmp_path / "run", data=data, model=Deep, rounds=1, engine="inline", random_split=True
    ) as federation:
        federation.train()
        with pytest.raises(PfedulError, match=r"fewer than 10 test samples .* too few to judge"):
            federation.rehearse(TARGET)
        sentence = federation.forget(TARGET).audit["verdict"]["sentence"]
        assert "use pfedul rehearse --level standard" in sentence


def test_answers_that_are_no_numbers_do_not_cost_the_removal(runs, tmp_path):
    with deep_again(copied(runs["fedper"], tmp_path / "run"), random_split=True) as federation:
        witness = Witness(federation, (TARGET,))
        broken = {name: tensor * float("nan") for name, tensor in federation.shared.items()}
        found = witness(broken)
    assert found["verdict"]["verdict"] == "not enough evidence"
    assert "NaN" in found["verdict"]["sentence"]


def test_the_setting_may_change_later_and_is_no_part_of_what_decides_a_run(tmp_path):
    with deep(tmp_path / "run") as federation:
        assert not federation.bench.random_split
    with deep_again(tmp_path / "run", random_split=True) as federation:
        assert federation.bench.random_split


def test_the_figures_do_not_tell_how_many_samples_the_target_had(leaky, tmp_path):
    with Federation.open(copied(leaky, tmp_path / "run")) as federation:
        outcome = federation.forget("c0", **EXCLUDE)
    values = [row["figures"][who]["value"] for row in outcome.audit["tests"] for who in BOTH]
    members, others = (outcome.audit["samples"][kind] for kind in ("members", "nonmembers"))
    likely = [(m, n) for m in near(members) for n in near(others)]
    assert len(likely) > 100
    assert sizes_that_give(values, likely, 0.005) == len(likely)


def test_exact_figures_would_tell_it():
    stream = np.random.default_rng(0)
    values = [float(stream.integers(380, 760) / 760) for _ in range(12)]
    likely = [(m, n) for m in near(40) for n in near(20)]
    assert sizes_that_give(values, likely, 1e-9) <= 3
    assert sizes_that_give([round(value, 2) for value in values], likely, 0.005) == len(likely)


BOTH = ("candidate", "untouched")


def near(count):
    """The numbers that are this one, to one digit."""
    return [number for number in range(1, 2 * count) if about(number) == count]
