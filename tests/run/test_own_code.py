"""Data and models that are named `module:function`: what is imported, what they may return."""

import json
import shutil
from functools import partial

import pytest
from torch import nn

from helpers.commands import call, refuse, succeed
from helpers.forgetting_kill import copied
from helpers.own_code import CODE, QUICK, working_in, write_module
from helpers.toys import QUICK as SETTINGS
from helpers.toys import WithNorm, create
from pfedul import Federation
from pfedul.base.code import own_function
from pfedul.base.registry import as_written, code_name
from pfedul.errors import PfedulError
from pfedul.models import MODELS
from pfedul.run.owncode import runs_around
from pfedul.settings import Settings, read_settings

WORKER = ("--engine", "processes", "--workers", "1")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a module, and a run that names it."""
    folder = tmp_path_factory.mktemp("own")
    write_module(folder)
    with working_in(folder):
        succeed("train", "run", *CODE, *QUICK, "--random-split", *WORKER)
    return folder


@pytest.fixture
def here(made, tmp_path):
    """The same, as the folder in which commands are called."""
    write_module(tmp_path)
    copied(made / "run", tmp_path / "run")
    with working_in(tmp_path):
        yield tmp_path


def test_the_names_are_in_the_configuration(made):
    settings = read_settings(made / "run")
    assert (settings.data, settings.model) == (CODE[1], "wards:network:hidden=6,deep")


@pytest.mark.parametrize(
    "words",
    [
        ("train", "run", "--rounds", "2"),
        ("train", "run", "--rounds", "2", *CODE),
        ("evaluate", "run"),
        ("inspect", "run", "--client", "c1"),
        ("rehearse", "run", "--client", "c1"),
        ("forget", "run", "--client", "c1", "--yes"),
        ("recalibrate", "run"),
    ],
    ids=lambda words: " ".join(words[::2]),
)
@pytest.mark.usefixtures("here")
def test_commands_need_no_names_again(words):
    succeed(*words)


@pytest.mark.usefixtures("here")
def test_a_comparison_works_in_processes_of_its_own():
    document = json.loads(
        succeed(
            *("compare", "run", "--client", "c1", "--methods", "none"),
            *("--oracles", "2", "--workers", "1", "--json"),
        )
    )
    assert [cell["failure"] for cell in document["cells"] if cell["asked"]] == [None]


@pytest.mark.usefixtures("here")
def test_python_takes_the_same_names():
    own = {"data": "wards:clients", "model": "wards:Small:hidden=7"}
    with Federation.create("other", **own, **{**SETTINGS, "rounds": 1}) as federation:
        federation.train()
    with Federation.open("other") as federation:
        assert federation.shared["0.weight"].shape == (7, 4)
    with pytest.raises(PfedulError, match="not the one that this run was made with"):
        Federation.open("other", model=lambda: nn.Sequential(nn.Linear(4, 7), nn.Linear(7, 3)))


def test_arguments_that_a_function_from_python_needs_are_named(tmp_path):
    with pytest.raises(
        PfedulError, match=r"needs values for its arguments: hidden; .*hidden=\.\.\."
    ):
        create(tmp_path / "run", model=lambda hidden, classes=3: WithNorm(hidden, classes))
    create(tmp_path / "run", model=partial(WithNorm, inputs=4)).close()


def test_a_run_of_objects_from_python_opens_in_the_shell(here):
    wards = own_function("model", code_name(CODE[3]), runs_around)
    data = own_function("data set", code_name(CODE[1]), runs_around)()
    Federation.create("notebook", data=data, model=wards, **SETTINGS).close()
    assert "data of your own" in refuse("train", "notebook", "--rounds", "1")
    succeed("train", "notebook", "--rounds", "1", *CODE)
    succeed("evaluate", "notebook", *CODE)
    assert read_settings(here / "notebook").model == "own"
    other = ("--data", "wards:clients:shift=2", *CODE[2:])
    assert "not those that this run was made with" in refuse("evaluate", "notebook", *other)


@pytest.mark.usefixtures("here")
def test_other_names_are_refused():
    assert "cannot become wards:Small" in refuse("evaluate", "run", "--model", "wards:Small")
    assert "cannot become wards:Small" in refuse("train", "run", "--model", "wards:Small")


def test_what_shows_a_run_needs_no_code(here):
    (here / "wards.py").unlink()
    (here / "imported").unlink(missing_ok=True)
    for command in ("status", "verify"):
        succeed(command, "run")
    assert "No module named 'wards'" in refuse("evaluate", "run")


@pytest.mark.usefixtures("here")
def test_readers_are_warned_of_an_older_copy():
    succeed("train", "mine", *CODE, *QUICK)
    shutil.copytree("mine", "older")
    succeed("train", "mine", "--rounds", "2")
    shutil.rmtree("mine")
    assert "Warning" not in call("evaluate", "older").output
    shutil.move("older", "mine")
    for words in (["evaluate"], ["inspect", "--all"], ["export", "--client", "c1", "--into", "x"]):
        assert "Warning: " in (output := call(*words, "mine").output)
        assert "does not go on from what your key signed last" in output


def test_a_configuration_file_names_code(here):
    (here / "mine.toml").write_text('data = "wards:clients"\nmodel = "wards:Small"\nrounds = 0')
    succeed("train", "again", "--config", "mine.toml", "--engine", "inline")


TRAIN = ("train", "new", *QUICK)
DATA, MODEL = ("--data", "wards:clients"), ("--model", "wards:Small")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*DATA, "--model", "wardz:f"), "No module named 'wardz'); it is looked for in the curr"),
        ((*DATA, "--model", "wards.nets:f"), "__path__ attribute not found on 'wards'"),
        ((*DATA, "--model", "broken:f"), "The module 'broken' of the model 'broken:f' cannot be "),
        ((*DATA, "--model", "broken:f"), "imported (ZeroDivisionError: division by zero, broken"),
        ((*DATA, "--model", "wards:netwerk"), "no 'netwerk' (did you mean 'network'?)"),
        ((*DATA, "--model", "wards:network"), "needs values for its arguments: hidden; add them"),
        ((*DATA, "--model", "wards:network:bold=3"), "no option 'bold'; it takes: hidden, deep, n"),
        ((*DATA, "--model", "wards:network:hidden=x"), "Option 'hidden' of the model 'wards:netw"),
        ((*DATA, "--model", "wards:untyped:hidden"), "needs a value for 'hidden': hidden=..."),
        ((*DATA, "--model", "wards:untyped:5,wide=2"), "failed: TypeError: "),
        ((*DATA, "--model", "wards:READY"), "is a Linear; name a function that makes it"),
        ((*DATA, "--model", "wards:NOTHING"), "is a NoneType; name a function"),
        ((*DATA, "--model", "wards:numbers"), "The model factory returned list, not a torch.nn."),
        ((*DATA, "--model", "wards:failing"), "failed: KeyError: 'no weights', wards.py line"),
        (("--data", "wards:numbers", *MODEL), "must return {client: (train, test)}, not list"),
        (("--data", "wards:nothing", *MODEL), "must return {client: (train, test)}, not None"),
        (("--data", "wards:leaving", *MODEL), "failed: SystemExit: no data, wards.py line"),
        (("--data", "wards:not_a_pair", *MODEL), "of client 'c0' must be a pair (train, test)"),
        (("--data", "wards:clients:count=two", *MODEL), "Option 'count' of the data set 'wards:c"),
        ((*DATA, *MODEL, "--clients", "3"), "--clients is for data that pfedul deals"),
        (("--data", "wards", *MODEL), "npz; functions of your own are named package.module:funct"),
        ((*DATA, "--model", "wards:network:hiden=3"), "no option 'hiden' (did you mean 'hidden'?)"),
        (("--model", "cnm:width=3"), "Unknown model 'cnm' (did you mean 'cnn'?)"),
        (
            (*DATA, "--model", "wards:network:hidden=4,norm=layer", "--personalization", "fedbn"),
            "FedBN keeps BatchNorm layers personal and this model has none",
        ),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_sentence(words, sentence, tmp_path):
    write_module(tmp_path)
    write_module(tmp_path, "broken", "1 / 0\n")
    with working_in(tmp_path):
        assert sentence in refuse(*TRAIN, *words)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ("hidden=4", {"hidden": 4}),
        ("4,deep", {"hidden": 4, "deep": True}),
        (" hidden = 4 , norm = layer", {"hidden": 4, "norm": "layer"}),
    ],
)
def test_options_have_the_types_of_the_function(options, arguments, tmp_path):
    write_module(tmp_path)
    with working_in(tmp_path):
        name = code_name(f"wards:network:{options}")
        assert own_function("model", name, runs_around).arguments == arguments
        shifted = code_name("wards:clients:shift=2")
        assert own_function("data set", shifted, runs_around).arguments == {"shift": 2.0}


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ("5,act=relu,bias=false", {"hidden": 5, "act": "relu", "bias": False}),
        ("hidden=5,layers=2,deep", {"hidden": 5, "layers": 2, "deep": True}),
        ("5,layer-norm-eps=1e-5,size=8+4", {"hidden": 5, "layer_norm_eps": 1e-5, "size": "8+4"}),
    ],
)
def test_options_without_a_known_type_are_read_as_they_are_written(options, arguments, tmp_path):
    """Those of arguments without annotation or default, and those that `**options` collects."""
    write_module(tmp_path)
    with working_in(tmp_path):
        function = own_function("model", code_name(f"wards:untyped:{options}"), runs_around)
    assert repr(function.arguments) == repr(arguments)  # True is not 1


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("True", True), ("inf", "inf"), ("nan", "nan"), ("1_0", "1_0")],
)
def test_values_as_they_are_written(text, value):
    assert as_written(text) == value
    assert type(as_written(text)) is type(value)


def test_a_function_of_options_alone_has_no_first_argument(tmp_path):
    write_module(tmp_path)
    with working_in(tmp_path):
        function = own_function("model", code_name("wards:options_alone:deep,wide=2"), runs_around)
    assert function() == {"deep": True, "wide": 2}


def test_annotations_may_be_anything(tmp_path):
    write_module(tmp_path)
    with working_in(tmp_path):
        name = code_name("wards:annotated:width=4,sizes=2,kind=1")
        assert own_function("model", name, runs_around)() == (4, 2, 1)


def test_entries_win_over_modules_of_their_name():
    assert Settings(model="mlp:hidden=3").model == "mlp:hidden=3,depth=2,norm=none"
    assert MODELS.own_code("mlp:hidden") is None


def test_the_settings_of_a_run_are_text(tmp_path):
    """Reading them imports nothing."""
    with working_in(tmp_path):
        assert Settings(model=" nowhere.nets:f: a = 1, b").model == "nowhere.nets:f:a=1,b"


def test_data_from_python_must_be_a_mapping(tmp_path):
    with pytest.raises(PfedulError, match="not list"):
        Federation.create(tmp_path / "run", data=[1], model=lambda: nn.Linear(4, 3))
