"""Removal requests on a run: several targets, one after another, refusals, determinism."""

import json
from datetime import date

import pytest
import torch

from helpers.forgetting_kill import TARGET, copied, deep, deep_again, trained
from helpers.told import AtStage
from helpers.toys import client_data, create, tensor_digests
from pfedul import PfedulError
from pfedul.base.tensorfile import read_file
from pfedul.errors import MethodFailed, NothingChanged
from pfedul.proof.verify_run import verify_run
from pfedul.status import read_status
from pfedul.store.requests import read_requests
from pfedul.unlearn.asked import month_after
from pfedul.unlearn.pfedul.scores import layer_scores

STRONG = {"correction": "trust-region:clip=0.3"}


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A trained run."""
    return trained(tmp_path_factory.mktemp("requests") / "run", rounds=2)


@pytest.fixture
def run(start, tmp_path):
    return copied(start, tmp_path / "run")


def state(folder):
    """All that a refusal must not change."""
    with deep_again(folder) as federation:
        rows = federation.store.ledger.rows("SELECT * FROM requests")
        clients = federation.store.ledger.rows("SELECT * FROM clients")
    return tensor_digests(folder), rows, clients


def names_in(ledger, table):
    return {row["client"] for row in ledger.rows(f"SELECT DISTINCT client FROM {table}")}


# Determinism


@pytest.mark.parametrize("correction", ["paper", "trust-region", "reset"])
def test_forgetting_twice_gives_the_same_bits(correction, start, tmp_path):
    copies = [copied(start, tmp_path / name) for name in "ab"]
    for copy in copies:
        with deep_again(copy) as federation:
            federation.forget(TARGET, correction=correction, layers="all", repair_rounds=1)
    assert tensor_digests(copies[0]) == tensor_digests(copies[1])


def test_worker_processes_train_record_and_forget_the_same_bits(start, tmp_path):
    run = tmp_path / "run"
    with deep(run, rounds=2, engine="processes", workers=2) as federation:
        federation.train()
        assert tensor_digests(run) == tensor_digests(start)
        federation.forget(TARGET, correction="reset", layers="all")
    with deep_again(copied(start, tmp_path / "inline")) as federation:
        outcome = federation.forget(TARGET, correction="reset", layers="all")
    assert tensor_digests(run) == tensor_digests(tmp_path / "inline")
    assert outcome.stages["recalibration"].cpu_seconds > 0


# Plans


def test_a_plan_touches_nothing_and_is_what_forget_does(run):
    before = state(run)
    with deep_again(run) as federation:
        plan = federation.plan(TARGET, **STRONG)
        wanted = plan.apply(federation.shared)
    assert state(run) == before
    with deep_again(run) as federation:
        outcome = federation.forget(TARGET, **STRONG)
    assert outcome.plan == plan.as_json()
    after = read_file(run / "shared.safetensors")
    assert all(torch.equal(after[name], wanted[name]) for name in wanted)


def test_scores_are_those_of_the_record(run):
    with deep_again(run) as federation:
        layers = federation.bench.split.layers
        found = [layer.score for layer in federation.plan("c0", "c2").layers]
    files = {n: read_file(run / f"records/fisher/c{n}.safetensors") for n in range(4)}
    of_two = {name: files[0][name] + files[2][name] for name in files[0]}
    total = {name: sum(files[n][name] for n in files) for name in files[0]}
    assert found == pytest.approx(layer_scores(of_two, total, layers), rel=1e-5)


def test_the_paper_divides_updates_by_the_learning_rate_and_scores_do_not_care(run):
    with deep_again(run) as federation:
        paper = federation.plan(TARGET, correction="paper:step=1,clip=100")
        other = federation.plan(TARGET, **STRONG)
        assert [row.score for row in paper.layers] == [row.score for row in other.layers]
        fisher = read_file(run / f"records/fisher/{TARGET}.safetensors")["one.weight"]
        now, initial = federation.shared, read_file(run / "init.safetensors")
        score = paper.layers[0].score
        step = (
            score * fisher / federation.settings.lr**2 * (now["one.weight"] - initial["one.weight"])
        )
    expected = now["one.weight"] + step
    torch.testing.assert_close(paper.corrected["one.weight"], expected)


def test_nothing_stands_out_in_a_single_layer(tmp_path):
    options = {"correction": "paper", "no_recalibration": True}
    with create(tmp_path / "run", rounds=1) as federation:
        federation.train()
        before = tensor_digests(tmp_path / "run")
        with pytest.raises(NothingChanged, match="of 1 shared layer none was chosen"):
            federation.forget("c1", **options)
        outcome = federation.forget("c1", **options, allow_unchanged=True)
    assert outcome.notes[0] == "no layer stands out: nothing is corrected"
    assert outcome.shared_sha256_before == outcome.shared_sha256_after
    assert tensor_digests(tmp_path / "run")["shared.safetensors"] == before["shared.safetensors"]


def test_at_least_so_many_layers_are_chosen(run):
    with deep_again(run) as federation:
        plans = [federation.plan(TARGET, correction="paper", at_least=k) for k in (0, 2, 3)]
    assert [len(plan.selected) for plan in plans] == [1, 2, 3]


# Outcomes


def test_an_outcome_is_json_even_if_nobody_had_any_accuracy_before(tmp_path):
    """PPS and CFI are not defined then: null, as JSON has no NaN."""
    data = client_data(2)
    (x, y), (test_x, test_y) = data["c0"]
    data["c0"] = (x, y % 2), (test_x, torch.full_like(test_y, 2))
    with create(tmp_path / "run", data=data, lr=0.1, local_epochs=10, rounds=1) as federation:
        federation.train()
        outcome = federation.forget("c1", no_recalibration=True)
    assert outcome.before == {"c0": 0.0}
    found = outcome.as_json()
    assert found["undefined"] == ["c0"]
    json.dumps(found, allow_nan=False)


# Several targets


def test_two_targets_at_once(run):
    with deep_again(run) as federation:
        outcome = federation.forget("c0", "c2")
        assert federation.clients == ["c1", "c3"]
        assert federation.store.ledger.value("SELECT COUNT(*) FROM requests") == 1
        assert names_in(federation.store.ledger, "replies") == {"c1", "c3"}
    assert outcome.targets == ("c0", "c2")
    assert outcome.erased["files"] == 6
    files = set(tensor_digests(run))
    assert not {file for file in files if "c0" in file or "c2" in file}


def test_a_target_named_twice_counts_once(run):
    with deep_again(run) as federation:
        assert federation.forget("c0", "c0").targets == ("c0",)


def test_one_after_another_the_pool_shrinks(run):
    with deep_again(run) as federation:
        layers = federation.bench.split.layers
        federation.forget("c0", **STRONG)
        scores = [row.score for row in federation.plan("c2", **STRONG).layers]
        assert sorted(federation.scores()) == ["c1", "c2", "c3"]
        federation.forget("c2", **STRONG)
        assert federation.clients == ["c1", "c3"]
        remaining = federation.scores()
        requests = federation.store.ledger.rows("SELECT request, targets FROM requests")
    assert [json.loads(row["targets"]) for row in requests] == [["c0"], ["c2"]]
    files = {n: read_file(run / f"records/fisher/c{n}.safetensors") for n in (1, 3)}
    total = {name: files[1][name] + files[3][name] for name in files[1]}
    assert remaining["c1"] == pytest.approx(layer_scores(files[1], total, layers), rel=1e-5)
    shares = [1 - score for score in scores]
    assert all(0 < share < 1 for share in shares)


# During training


def test_forgetting_during_training_then_training_on(run):
    with deep_again(run) as federation:
        federation.forget(TARGET, **STRONG)
        federation.train(4)
        assert federation.rounds == 4
    with deep_again(run) as federation:
        federation.train(5)
        ledger = federation.store.ledger
        assert ledger.value("SELECT MAX(round) FROM rounds") == 5
        for table in ("clients", "replies", "evaluations"):
            assert names_in(ledger, table) == {"c0", "c2", "c3"}
        assert ledger.value("SELECT replies FROM rounds WHERE round = 5") == 3
    assert not [file for file in tensor_digests(run) if TARGET in file]


def test_after_forgetting_the_data_of_the_target_are_let_go(run):
    with deep_again(run) as federation:
        federation.forget(TARGET)
        assert TARGET not in federation.bench.data
        assert TARGET not in federation.known_data
        with pytest.raises(PfedulError, match="no client 'c1'"):
            federation.personal(TARGET)


# Refusals


@pytest.mark.parametrize(
    ("targets", "options", "sentence"),
    [
        (["nobody"], {}, "There is no client 'nobody' in this run; it has: c0, c1, c2, c3."),
        ([], {}, "Name at least one client"),
        (["c0", "c1", "c2", "c3"], {}, "Nobody would remain"),
        (["c1"], {"away": ["c1"], "method": "ga-naive"}, "needs c1 to take part, which is away"),
        (["c1"], {"away": ["x"]}, "'x' is not one of the clients"),
        (["c1"], {"method": "none", "alpha": 1.0}, "--alpha belongs to the method 'pfedul'"),
        (["c1"], {"recalibrate": True, "no_recalibration": True}, "not both"),
        (["c1"], {"method": "ga-naive:rounds=0"}, "rounds must be at least 1"),
        (["c1"], {"correction": "reset", "step": 0.1}, "'reset' has no --step"),
        (["c1"], {"correction": "reset", "clip": 0.1}, "'reset' has no --clip"),
        (["c1"], {"correction": "paper", "fraction": 0.1}, "'paper' has no --fraction"),
        (["c1"], {"correction": "paper", "toward": "init"}, "'paper' has no --toward"),
        (["c1"], {"correction": "other"}, "Unknown correction 'other'"),
        (["c1"], {"method": "magic"}, "Unknown method 'magic'"),
        (["c1"], {"alpha": -1.0}, "--alpha must be at least 0"),
        (["c1"], {"alpha": float("nan")}, "--alpha must be a finite number"),
        (["c1"], {"clip": 0.0}, "--clip must be above 0"),
        (["c1"], {"step": "x"}, "--step takes a number"),
        (["c1"], {"correction": "reset", "fraction": 2.0}, "--fraction must be at most 1"),
        (["c1"], {"repair_rounds": -1}, "--repair-rounds must be at least 0"),
        (["c1"], {"recalibration_epochs": 0}, "--recalibration-epochs must be at least 1"),
        (["c1"], {"layers": "middle"}, "--layers is one of"),
        (["c1"], {"scores": "uniform", "layers": "low"}, "corrects every layer"),
    ],
)
def test_a_refusal_is_one_sentence_and_changes_nothing(targets, options, sentence, start):
    before = state(start)
    with deep_again(start) as federation:
        with pytest.raises(PfedulError) as refusal:
            federation.forget(*targets, **options)
        assert federation.clients == ["c0", "c1", "c2", "c3"]
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert state(start) == before


def test_asking_again_for_what_is_done_returns_the_outcome(run):
    with deep_again(run) as federation:
        first = federation.forget(TARGET, by="case 17", ground="Art. 17(1)(b)", due="2030-01-31")
    before = state(run)
    with deep_again(run) as federation:
        again = federation.forget(TARGET, by="somebody else")
        assert again == first
        assert again.asked == {"by": "case 17", "ground": "Art. 17(1)(b)", "due": "2030-01-31"}
        with pytest.raises(PfedulError, match="'c1' was already forgotten \\(request 1, "):
            federation.plan(TARGET)
        with pytest.raises(PfedulError, match="already forgotten"):
            federation.forget("c0", TARGET)
    assert state(run) == before


def interrupted(federation, **asked):
    """A removal that Ctrl-C ends when the first client has replied: its request is pending."""

    def interrupt(_stage, done, _of):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        federation.forget(TARGET, callbacks=[AtStage(interrupt)], **asked)


def test_a_request_is_due_a_month_later_and_an_interrupted_one_keeps_who_asked(run):
    with deep_again(run) as federation:
        interrupted(federation, by="case 17")
        (pending,) = read_requests(federation.store.ledger)
        assert federation.forget(TARGET, by="case 18").asked == pending.asked
    assert pending.asked["by"] == "case 17"
    assert (
        pending.asked["due"] == month_after(date.fromisoformat(pending.asked_at[:10])).isoformat()
    )


@pytest.mark.parametrize(
    ("targets", "options", "why"),
    [
        (["c0", "c1", "c2", "c3"], {}, "Nobody would remain"),
        (["c1"], {"method": "sifu"}, "keeps no psi record"),
    ],
)
def test_a_request_that_is_refused_at_once_stays_if_it_says_who_asks(targets, options, why, run):
    with deep_again(run) as federation:
        for by in ("case 17", "case 17", "case 18"):
            with pytest.raises(PfedulError, match=why):
                federation.forget(*targets, by=by, **options)
        filed = read_requests(federation.store.ledger)
        assert [request.asked["by"] for request in filed] == ["case 17", "case 18"]
        assert {request.status for request in filed} == {"refused"}
        assert why in filed[0].ending["reason"]
        assert "c0" not in filed[0].ending["reason"] or "c0" in targets
        assert federation.forget("c1", by="case 19").request == 3
    read_status(run)
    assert not [check for check in verify_run(run, None) if check.holds is False]


def test_while_another_request_is_not_finished_a_refused_one_stays(run):
    with deep_again(run) as federation:
        interrupted(federation, by="case 17")
        with pytest.raises(PfedulError, match="is not finished"):
            federation.forget("c2", by="case 18")
        assert federation.forget(TARGET).request == 1
        statuses = [request.status for request in read_requests(federation.store.ledger)]
    assert statuses == ["done", "refused"]


@pytest.mark.parametrize(("target", "by"), [("c1", None), ("nobody", "case 17")])
def test_a_slip_leaves_no_request(target, by, run):
    """The operator's own try, or a name that is no client's and so may be anybody's."""
    with deep_again(run) as federation:
        with pytest.raises(PfedulError):
            federation.forget(target, method="sifu", by=by)
        assert read_requests(federation.store.ledger) == []


@pytest.mark.parametrize("asked", [{"due": "soon"}, {"by": "a\nb"}, {"ground": 501 * "x"}])
def test_who_asks_is_one_line_and_the_due_date_a_date(asked, run):
    with deep_again(run) as federation, pytest.raises(PfedulError):
        federation.forget(TARGET, **asked)


def test_the_last_client_cannot_be_forgotten(run):
    with deep_again(run) as federation:
        federation.forget("c1", "c2", "c3")
        assert federation.clients == ["c0"]
        with pytest.raises(PfedulError, match="Nobody would remain"):
            federation.forget("c0")
        federation.train(3)


def test_while_the_run_is_open_elsewhere_nothing_can_be_forgotten(run):
    with deep_again(run), pytest.raises(PfedulError, match="open already"):
        deep_again(run)


# Targets without a record


def bystander(federation):
    sql = "SELECT client FROM clients WHERE client NOT IN (SELECT client FROM replies)"
    return federation.store.ledger.rows(sql)[0]["client"]


@pytest.mark.parametrize("options", [{}, {"layers": "all", **STRONG}], ids=["default", "strong"])
def test_a_target_that_never_took_part_is_erased_and_nothing_corrected(options, tmp_path):
    record = "fisher" if options else "fisher+contributions"
    run = trained(tmp_path / "run", rounds=1, participation=0.5, record=record)
    with deep_again(run) as federation:
        target = bystander(federation)
        outcome = federation.forget(target, **options)
        assert target not in federation.clients
    assert "nothing is corrected" in outcome.notes[0]
    assert outcome.plan["target"] == [target]
    assert outcome.shared_sha256_before == outcome.shared_sha256_after
    assert outcome.erased["files"] == 1
    assert not (run / "clients" / target).exists()


def test_before_training_a_client_is_erased_and_nothing_corrected(tmp_path):
    with deep(tmp_path / "run") as federation:
        before = tensor_digests(tmp_path / "run")["shared.safetensors"]
        outcome = federation.forget(TARGET)
        assert federation.clients == ["c0", "c2", "c3"]
    assert "nothing is corrected" in outcome.notes[0]
    assert tensor_digests(tmp_path / "run")["shared.safetensors"] == before


def test_of_two_targets_one_may_never_have_taken_part(tmp_path):
    run = trained(tmp_path / "run", rounds=1, participation=0.5)
    with deep_again(run) as federation:
        idle, active = bystander(federation), sorted(names_in(federation.store.ledger, "replies"))
        plan = federation.plan(idle, active[0])
        outcome = federation.forget(idle, active[0])
        assert sorted([*federation.clients, idle, active[0]]) == ["c0", "c1", "c2", "c3"]
    assert sorted(plan.targets) == sorted([idle, active[0]])
    assert sorted(outcome.targets) == sorted([idle, active[0]])


def test_all_who_have_a_record_can_be_forgotten_while_others_remain(tmp_path):
    run = trained(tmp_path / "run", rounds=1, participation=0.5)
    with deep_again(run) as federation:
        active = sorted(names_in(federation.store.ledger, "replies"))
        assert len(active) == 2
        with pytest.raises(NothingChanged, match=r"trained again\..* another method \(--method"):
            federation.forget(*active)
        federation.forget(*active, correction="paper", allow_unchanged=True)
        assert len(federation.clients) == 2
    assert not list((run / "records").rglob("*.safetensors"))


@pytest.mark.parametrize("recalibrate", [False, True])
def test_a_result_that_nobody_can_use_is_the_failure_of_the_method(recalibrate, tmp_path):
    """Its tensors are finite, but not what a model makes of them."""
    run = trained(tmp_path / "run", rounds=2, record="sums")
    (tensors, _, clients), method = state(run), "fedrecovery:gamma=1e20,sigma=1e20"
    with deep_again(run) as federation, pytest.raises(MethodFailed, match="'fedrecovery' diverged"):
        federation.forget(TARGET, method=method, recalibrate=recalibrate)
    after, (request,), clients_after = state(run)
    assert (after, clients_after) == (tensors, clients)
    assert request["status"] == "failed"
    with deep_again(run) as federation:
        (failed,) = read_requests(federation.store.ledger)
        assert "'fedrecovery' diverged" in failed.ending["reason"]
        federation.train(3)
        assert federation.forget(TARGET, method="none", allow_unchanged=True).request == 2


def test_a_request_that_was_begun_with_another_method_says_so(run):
    def interrupt(_stage, done, _of):
        if done:
            raise KeyboardInterrupt

    with deep_again(run) as federation:
        with pytest.raises(KeyboardInterrupt):
            federation.forget(TARGET, method="ga-naive:rounds=2", callbacks=[AtStage(interrupt)])
        outcome = federation.forget(TARGET, method="none", allow_unchanged=True)
    assert "begun with method ga-naive" in outcome.notes[0]
    assert "abandoned" in outcome.notes[0]
