"""The commands around forgetting: inspect, forget, recalibrate, admit, status."""

import json
from pathlib import Path

import pytest

from helpers.commands import call, refuse, succeed
from helpers.forgetting_kill import copied
from helpers.toys import tensor_digests
from pfedul.store.marker import mark

FAST = (
    "--clients 4 --samples 160 --local-epochs 1 --model mlp:hidden=16,depth=4 --engine inline "
    "--partition dirichlet:0.5 --min-samples 2 --rounds 2"
)
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def read(*words: str | Path):
    def refuse_constant(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(succeed(*words, "--json"), parse_constant=refuse_constant)


@pytest.fixture(scope="module")
def start(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    succeed("train", folder, *FAST.split())
    return folder


@pytest.fixture(scope="module")
def ids(start) -> list[str]:
    return [row["client"] for row in json.loads(succeed("status", start, "--json"))["clients"]]


@pytest.fixture
def run(start, tmp_path) -> Path:
    return copied(start, tmp_path / "run")


def everything(folder: Path) -> tuple:
    return tensor_digests(folder), read("status", folder)["requests"]


def test_inspect_draws_the_plan_and_touches_nothing(start, ids):
    before = everything(start)
    text = succeed("inspect", start, "--client", ids[0])
    assert f"plan to forget {ids[0]}" in text
    assert "█" in text
    assert "threshold" in text
    assert "4 of 4 layers chosen" in text
    assert "the direct influence of the targets is zero" in text
    assert everything(start) == before


def test_inspect_prints_the_plan_as_json(start, ids):
    words = "--client", ids[0], "--client", ids[1], "--correction", "paper"
    found = read("inspect", start, *words)
    assert found["target"] == ids[:2]
    assert isinstance(found["threshold"], float)
    keys = ["name", "tensors", "parameters", "score", "selected", "relative_change", "at_bound"]
    assert len(found["layers"]) == 4
    for layer in found["layers"]:
        assert list(layer) == keys
        assert layer["selected"] == (layer["score"] > found["threshold"])


@pytest.mark.parametrize(
    ("options", "correction", "chosen"),
    [
        ("--strength 0.5", "exclude:strength=0.5", 4),
        ("--correction paper --layers all --step 0.5 --clip 0.2", "paper:step=0.5,clip=0.2", 4),
        ("--correction trust-region --toward init --at-least 3", None, 3),
        ("--correction reset --fraction 0.5 --layers all", "reset:fraction=0.5", 4),
        ("--correction paper --scores uniform", None, 4),
        ("--correction paper --alpha 100", None, 0),
        (
            "--correction paper --alpha 100 --layers random --at-least 2 --intensity uniform",
            None,
            2,
        ),
        ("--correction paper --layers low --at-least 2 --fisher-noise 0.1", None, 2),
    ],
)
def test_inspect_takes_the_options_of_forget(options, correction, chosen, start, ids):
    found = read("inspect", start, "--client", ids[0], *options.split())
    assert sum(layer["selected"] for layer in found["layers"]) == chosen
    assert correction is None or found["correction"] == correction
    if not chosen:
        assert found["notes"][0] == "no layer stands out: nothing is corrected"
        text = succeed("inspect", start, "--client", ids[0], *options.split())
        assert "no layer stands out" in text


def test_inspect_all_draws_clients_by_layers(start, ids):
    text = succeed("inspect", start, "--all")
    assert all(client in text for client in ids)
    assert "4 layers" in text
    found = read("inspect", start, "--all")
    assert list(found["scores"]) == ids
    assert len(found["layers"]) == 4
    for layer in zip(*found["scores"].values(), strict=True):
        assert sum(layer) == pytest.approx(1, rel=1e-5)


def test_inspect_exact_compares_with_the_exact_fisher(start, ids):
    found = read("inspect", start, "--client", ids[0], "--exact")
    assert len(found["exact_scores"]) == 4
    assert -1 <= found["rank_agreement"] <= 1
    assert "rank agreement" in succeed("inspect", start, "--client", ids[0], "--exact")


@pytest.mark.parametrize("what", ["--all", "--client"])
def test_inspect_saves_a_picture(what, start, ids, tmp_path):
    words = ["--all"] if what == "--all" else ["--client", ids[0]]
    succeed("inspect", start, *words, "--save", tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(SIGNATURE)
    assert "picture cannot be saved" in refuse(
        "inspect", start, *words, "--save", tmp_path / "missing/x.png"
    )


def test_a_dry_run_shows_the_plan_and_changes_nothing(run, ids):
    before = everything(run)
    text = succeed("forget", run, "--client", ids[0], "--dry-run")
    assert f"plan to forget {ids[0]}" in text
    assert "Would erase: " in text
    found = read("forget", run, "--client", ids[0], "--dry-run")
    assert found["target"] == [ids[0]]
    assert everything(run) == before


def test_a_dry_run_shows_the_options_that_were_given(start, ids):
    words = "forget", start, "--client", ids[0], "--method", "fine-tune:rounds=3", "--dry-run"
    assert "rounds=3" in succeed(*words)
    assert read(*words)["options"]["rounds"] == 3


def test_comparisons_with_the_target_are_named_before_they_are_erased(run, ids):
    folder = run / "comparisons" / "one"
    mark(folder)
    (folder / "clients.json").write_text(json.dumps(ids))
    (folder / "result.json").write_text("{}")
    assert "comparisons/one/" in succeed("forget", run, "--client", ids[0], "--dry-run")
    assert "erased      6 files" in succeed("forget", run, "--client", ids[0], "--yes")
    assert not folder.exists()


def test_status_tells_the_accuracy_after_a_removal(run, ids):
    found = read("forget", run, "--client", ids[0], "--correction", "reset", "--fraction", "1")
    known = read("status", run)["accuracy_now"]
    after = list(found["after"].values())
    assert known["mean"] == pytest.approx(sum(after) / len(after))
    assert f"now {known['mean']:.1%}" in succeed("status", run)
    succeed("evaluate", run)
    assert read("status", run)["accuracy_now"]["mean"] == pytest.approx(known["mean"])


def test_options_that_a_method_does_not_know_are_not_in_its_outcome(run, ids):
    found = read("forget", run, "--client", ids[0], "--method", "one-more-round")
    assert "correction" not in found["options"]
    assert found["options"]["method"].startswith("one-more-round")


def test_forget_says_what_it_did(run, ids):
    result = call("forget", run, "--client", ids[0], "--yes")
    assert result.exit_code == 0
    for stage in ("plan ...", "repair ...", "recalibration ...", "erasure ..."):
        assert stage in result.stderr
    text = result.stdout
    assert f"Removed {ids[0]} (request 1): not enough evidence." in text
    assert "evidence    Of " in text
    assert "corrected   body.0.0, body.1.0, body.2.0, body.3.0" in text
    assert "erased      3 files" in text
    for word in ("PPS", "CFI", "of the CPU time of retraining", "rounds", "broadcast", "->"):
        assert word in text
    assert all(client in text for client in ids[1:])


def test_a_removal_without_an_audit_says_that_nothing_was_measured(run, ids):
    text = succeed("forget", run, "--client", ids[0], "--yes", "--no-audit")
    assert "What was forgotten was not measured." in text


def test_the_papers_rule_says_how_little_it_moves(run, ids):
    notes = read("forget", run, "--client", ids[0], "--correction", "paper", "--step", "9")
    moved = [note for note in notes["notes"] if note.startswith("no layer moved by more than")]
    assert len(moved) == 1
    assert "forgot nothing that an attack can see" in moved[0]
    share = float(moved[0].removeprefix("no layer moved by more than ").partition(" %")[0])
    furthest = max(layer["relative_change"] for layer in notes["plan"]["layers"])
    assert share == pytest.approx(100 * furthest, rel=0.005) != 0


def test_a_removal_that_changes_nothing_is_an_error_and_stays_pending(run, ids):
    before = tensor_digests(run)
    words = "forget", run, "--client", ids[0], "--correction", "paper", "--alpha", "100"
    sentence = refuse(*words)
    assert "Nothing would be corrected: of 4 shared layers none was chosen" in sentence
    assert "--allow-unchanged" in sentence
    assert read("status", run)["requests"][0]["status"] == "pending"
    assert tensor_digests(run) == before
    text = succeed(*words, "--allow-unchanged", "--yes")
    assert "corrected   no layer" in text
    assert read("status", run)["requests"][0]["status"] == "done"


def test_a_pending_request_that_changed_nothing_can_be_finished_with_another_method(run, ids):
    refuse("forget", run, "--client", ids[0], "--method", "none")
    found = read("forget", run, "--client", ids[0])
    assert found["options"]["correction"].startswith("exclude")
    assert found["shared_sha256_after"] != found["shared_sha256_before"]


def test_forget_prints_the_outcome_as_json(run, ids):
    found = read("forget", run, "--client", ids[0], "--client", ids[1], "--repair-rounds", "1")
    assert found["targets"] == ids[:2]
    assert found["rounds"] == 1
    assert sorted(found["before"]) == sorted(found["after"]) == ids[2:]
    assert set(found["erased"]) == {"files", "bytes", "rows"}
    assert found["bytes_broadcast"] > 0
    for stage in ("plan", "recalibration", "erasure", "repair", "evaluation"):
        assert set(found["stages"][stage]) == {"seconds", "cpu_seconds"}
    keys = {"pps", "cfi", "pps_interval", "cfi_interval", "plan", "options", "asked_at", "notes"}
    hashes = {"shared_sha256_before", "shared_sha256_after", "finished_at", "not_recalibrated"}
    assert keys | hashes <= set(found)


def test_training_goes_on_without_the_target(run, ids):
    succeed("forget", run, "--client", ids[0])
    succeed("train", run, "--rounds", "3")
    assert [row["client"] for row in read("status", run)["clients"]] == ids[1:]


def test_asked_for_again_it_shows_the_outcome_and_changes_nothing(run, ids):
    words = ("--by", "case 17", "--ground", "GDPR Art. 17(1)(b)", "--due", "2030-01-31")
    first = read("forget", run, "--client", ids[0], *words)
    before = tensor_digests(run)
    assert read("forget", run, "--client", ids[0]) == first
    assert "nothing was done again" in succeed("forget", run, "--client", ids[0])
    assert tensor_digests(run) == before
    asked = "asked for by case 17 on the ground of GDPR Art. 17(1)(b), due 2030-01-31"
    assert asked in succeed("status", run)


def test_clients_that_were_away_recalibrate_later(run, ids):
    out = succeed("forget", run, "--client", ids[0], "--away", ids[1])
    assert f"Not recalibrated yet: {ids[1]}." in out
    assert f"not recalibrated yet: {ids[1]}" in succeed("status", run)
    assert read("recalibrate", run) == {"recalibrated": [ids[1]]}
    assert "nobody" in succeed("recalibrate", run)
    assert read("status", run)["requests"][0]["not_recalibrated"] == []


def test_a_forgotten_client_is_admitted_only_as_a_new_one(run, ids):
    succeed("forget", run, "--client", ids[0])
    assert "--again" in refuse("admit", run, "--client", ids[0])
    found = read("admit", run, "--client", ids[0], "--again")
    assert found == {"client": ids[0], "joined_round": 2}
    assert "part of this run already" in succeed("admit", run, "--client", ids[0], "--again")
    assert [row["client"] for row in read("status", run)["clients"]] == ids


def test_status_shows_requests_and_the_cost_of_the_record(run, ids):
    before = read("status", run)
    assert before["requests"] == []
    assert before["bytes"]["records"] > 0
    assert 0 < before["cost"]["record_share"] < 1
    text = succeed("status", run)
    assert "recording" in text
    assert "of round time" in text
    assert "records" in text
    succeed("forget", run, "--client", ids[0])
    request = read("status", run)["requests"][0]
    assert (request["request"], request["targets"], request["status"]) == (1, [ids[0]], "done")
    assert f"request 1: forget {ids[0]}, done" in " ".join(succeed("status", run).split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("inspect RUN", "Give either --client ID or --all."),
        ("inspect RUN --all --client ID", "Give either --client ID or --all."),
        ("inspect RUN --client nobody", "There is no client 'nobody'"),
        ("forget RUN", "Name at least one client"),
        ("forget RUN --client nobody", "There is no client 'nobody'"),
        ("forget RUN --client nobody --dry-run", "There is no client 'nobody'"),
        ("forget RUN --client ID --correction reset --step 0.1", "'reset' has no --step"),
        ("forget RUN --client ID --alpha -1", "--alpha must be at least 0"),
        ("forget RUN --client ID --alpha nan", "--alpha must be a finite number"),
        ("forget RUN --client ID --correction bogus", "Unknown correction 'bogus'"),
        (
            "forget RUN --client ID --method pfedul:correction=reset,fraction=0.3",
            "give --method pfedul --correction reset --fraction 0.3",
        ),
        (
            "forget RUN --client ID --method federaser+recalibrate",
            "give --method federaser --recalibrate",
        ),
        ("forget RUN --client ID --method federeser", "(did you mean 'federaser'?)"),
        ("forget RUN --client ID --method fine-tune:rounds", "needs a value for 'rounds'"),
        ("forget RUN --client ID --layers middle", "middle"),
        ("forget RUN --client ID --away nobody", "'nobody' is not one of the clients"),
        ("forget RUN --client ID --dry-run --away nobody", "'nobody' is not one of the clients"),
        ("admit RUN --client nobody", "no data of a client 'nobody'"),
        ("admit RUN", "--client"),
        ("forget NOWHERE --client ID", "There is no run at"),
        ("inspect NOWHERE --all", "There is no run at"),
        ("recalibrate NOWHERE", "There is no run at"),
    ],
)
def test_a_mistake_gets_one_sentence_and_changes_nothing(words, sentence, start, ids):
    before = everything(start)
    places = {"RUN": str(start), "NOWHERE": str(start / "nowhere"), "ID": ids[0]}
    assert sentence in refuse(*(places.get(word, word) for word in words.split()))
    assert everything(start) == before


def test_a_run_without_a_record_says_so(tmp_path):
    succeed("train", tmp_path / "run", *FAST.split(), "--record", "none")
    client = read("status", tmp_path / "run")["clients"][0]["client"]
    run = tmp_path / "run"
    assert "keeps no contributions record" in refuse("inspect", run, "--client", client)
    assert "keeps no Fisher record" in refuse("inspect", run, "--all")
    assert "keeps no contributions record" in refuse("forget", run, "--client", client)


def test_a_run_keeps_the_records_of_a_method_that_is_named(tmp_path):
    run = tmp_path / "run"
    for _ in range(2):  # the second call continues the run with the same words
        succeed("train", run, *FAST.split(), "--rounds", "1", "--record", "pfedul+federaser")
    assert 'record = "fisher+contributions+norms"' in (run / "federation.toml").read_text()


def test_a_client_that_never_took_part_can_be_inspected(tmp_path):
    run = tmp_path / "run"
    succeed("train", run, *FAST.split(), "--rounds", "1", "--participation", "0.5")
    idle = next(
        row["client"]
        for row in read("status", run)["clients"]
        if not (run / f"records/fisher/{row['client']}.safetensors").exists()
    )
    assert "nothing is corrected" in succeed("inspect", run, "--client", idle)
    assert read("inspect", run, "--client", idle)["layers"] == []
    succeed("inspect", run, "--client", idle, "--save", tmp_path / "x.png")
    succeed("inspect", run, "--client", idle, "--exact")


def test_exact_scores_of_a_single_layer_are_shown_though_there_is_no_rank(tmp_path, ids):
    run = tmp_path / "run"
    succeed("train", run, *FAST.replace("depth=4", "depth=1").split())
    found = read("inspect", run, "--client", ids[0], "--exact")
    assert len(found["exact_scores"]) == 1
    assert found["rank_agreement"] is None
