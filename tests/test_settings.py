"""Settings: limits, canonical form, files, and what may change later."""

from dataclasses import replace

import pytest

from pfedul import PfedulError, Settings
from pfedul.records import canonical_records
from pfedul.settings import (
    changeable,
    fixed,
    from_mapping,
    merge,
    read_toml,
    settings_digest,
    write_toml,
)
from pfedul.unlearn.methods import with_records_of_methods


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data": "imagenet"}, "Unknown data set 'imagenet'; known are: digits, "),
        (
            {"model": "vit"},
            "Unknown model 'vit'; known are: resnet18, cnn, mlp, transformer; functions of",
        ),
        ({"personalization": "fedsgd"}, "known are: fedavg, fedper, fedrep, ditto, fedbn, lora."),
        ({"partition": "random"}, "Unknown partition 'random'"),
        (
            {"engine": "slurm"},
            "--engine is one of auto, inline, processes, flower-simulation, not 'slurm'.",
        ),
        ({"rounds": -1}, "--rounds must be at least 0, not -1."),
        ({"clients": 0}, "--clients must be at least 1, not 0."),
        ({"lr": 0.0}, "--lr must be above 0, not 0.0."),
        ({"lr": float("nan")}, "--lr must be a finite number"),
        ({"lr": float("inf")}, "--lr must be a finite number"),
        ({"batch_size": -4}, "--batch-size must be at least 1, not -4."),
        ({"local_epochs": 0}, "--local-epochs must be at least 1, not 0."),
        ({"participation": 1.5}, "--participation must be at most 1, not 1.5."),
        ({"participation": 0.0}, "--participation must be above 0, not 0.0."),
        ({"workers": 0}, "--workers must be at least 1, not 0."),
        ({"seed": "seven"}, "--seed takes a whole number, not 'seven'."),
        ({"rounds": True}, "--rounds takes a whole number, not True."),
        ({"rounds": 2.5}, "--rounds takes a whole number, not 2.5."),
        ({"data": 7}, "--data takes text, not 7."),
        ({"partition": "dirichlet:-1"}, "partition 'dirichlet'"),
        ({"partition": "dirichlet:beta=1"}, "has no option 'beta'; it takes: alpha."),
        ({"partition": "iid:3"}, "has no option '3'; it takes no options."),
        ({"model": "resnet18:width=wide"}, "'width' of the model 'resnet18' takes a value of type"),
        ({"personalization": "ditto:lam=-1"}, "lam must be at least 0, not -1.0"),
        ({"data": "npz"}, "The data set 'npz' needs a value for 'file'."),
    ],
)
def test_bad_values_get_one_sentence(changes, sentence):
    with pytest.raises(PfedulError) as error:
        from_mapping(changes, "a test")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_choices_have_one_canonical_form():
    short, long = Settings(partition="dirichlet:0.3"), Settings(partition="dirichlet:alpha=0.30")
    assert short == long
    assert short.partition == "dirichlet:alpha=0.3"
    assert Settings(partition="rare-class:classes=2+3").partition.startswith(
        "rare-class:classes=2+3,share="
    )


def test_a_file_gives_back_what_was_written(tmp_path):
    settings = Settings(clients=7, lr=0.5, personalization="ditto:lam=0.3", samples=100)
    (tmp_path / "federation.toml").write_text(write_toml(settings))
    assert from_mapping(read_toml(tmp_path / "federation.toml"), "file") == settings


def test_whole_numbers_will_do_for_numbers():
    assert Settings(lr=1).lr == 1.0


def test_what_may_change_later():
    stored = Settings(clients=5)
    assert merge(stored, {"rounds": 99, "workers": 3}).rounds == 99
    assert merge(stored, {"clients": 5, "lr": 0.01}) == stored
    assert changeable({"rounds": 1, "lr": 2.0}) == {"rounds": 1}
    for name, value in (("seed", 3), ("model", "mlp"), ("partition", "dirichlet:0.1")):
        with pytest.raises(PfedulError, match=f"--{name} .* cannot become"):
            merge(stored, {name: value})


def test_equal_choices_written_otherwise_do_not_conflict():
    stored = Settings(partition="dirichlet:0.5")
    assert merge(stored, {"partition": "dirichlet:alpha=0.5"}) == stored


KNOWN_DIGESTS = {
    "1000a593413a6d76e5f69c2bde94fa34f3c7f33cc4260c6834f035ef21d6fcdd": {"record": "fisher"},
    "eecfb6049ca4755ef2f96047540097f5ead88f15ac8b0345286d19aeb289cc8c": {
        "record": "fisher",
        "data": "own",
        "model": "own",
        "clients": 7,
        "lr": 0.5,
        "personalization": "ditto",
    },
}


@pytest.mark.parametrize(("digest", "changes"), KNOWN_DIGESTS.items())
def test_newer_options_leave_the_digest_of_older_runs_as_it_was(digest, changes):
    """These digests stand in the ledgers of runs that were made before there were such options."""
    assert settings_digest(Settings(**changes)) == digest
    assert "plant_backdoor" not in fixed(Settings(**changes))


def test_newer_options_decide_a_run_once_they_are_used():
    planted = Settings(plant_backdoor="client-05")
    assert planted.plant_backdoor == "client-05:label=0,share=0.5,size=3"
    assert fixed(planted) == {**fixed(Settings()), "plant_backdoor": planted.plant_backdoor}
    assert settings_digest(planted) != settings_digest(Settings())
    with pytest.raises(PfedulError, match=r"--plant-backdoor .* cannot become None"):
        merge(planted, {"plant_backdoor": None})


def test_a_file_that_is_no_toml_is_refused(tmp_path):
    (tmp_path / "x.toml").write_text("rounds = = 3")
    with pytest.raises(PfedulError, match="cannot be read"):
        read_toml(tmp_path / "x.toml")
    with pytest.raises(PfedulError, match="There is no configuration file"):
        read_toml(tmp_path / "y.toml")


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(AttributeError):
        Settings().lr = 3  # type: ignore[misc]
    assert replace(Settings(), lr=3).lr == 3.0


def test_a_record_that_no_method_needs_is_refused_by_its_name():
    with pytest.raises(PfedulError, match="The method 'knot' needs no record"):
        with_records_of_methods({"record": "fisher+knot"})
    for refusing in (canonical_records, lambda text: with_records_of_methods({"record": text})):
        with pytest.raises(PfedulError, match="--record knows no 'nosuch'"):
            refusing("nosuch")
