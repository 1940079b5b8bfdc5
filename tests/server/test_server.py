"""Choosing clients, checking replies, adding them up."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from pfedul.aggregation.mean import StreamingMean
from pfedul.aggregation.weights import Weighing
from pfedul.protocol import Reply, Task
from pfedul.server.checks import Rules, check_reply, update_norm
from pfedul.server.round import TooFewReplies, ask_clients, choose_clients, run_round

SHARED = {"w": torch.zeros(2), "mean": torch.zeros(2), "n": torch.tensor(0)}
PERSONAL = {"h": torch.zeros(3)}
CLIENTS = ("a", "b", "c")
RULES = Rules(SHARED, PERSONAL, frozenset({"w", "h"}), {"a": 1, "b": 3, "c": 4})


def asking(engine):
    """How a run asks the clients of this engine."""
    return partial(ask_clients, engine, lambda _: None)


def reply(client: str, value: float = 1.0, **changes) -> Reply:
    shared = {"w": torch.full((2,), value), "mean": torch.full((2,), value), "n": torch.tensor(5)}
    good = Reply(client, RULES.samples[client], shared, {"h": torch.ones(3)}, {"loss": 0.5})
    return replace(good, **changes)


class Scripted:
    """An engine that gives prepared replies, in the order asked for."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = {item.client: item for item in replies}
        self.asked: list[str] = []

    def run(self, _task: Task, clients, _shared, _locate_personal):
        for client in clients:
            self.asked.append(client)
            yield self.replies[client]

    def close(self) -> None: ...


def play(*replies: Reply, rules: Rules = RULES):
    engine, kept = Scripted(*replies), []
    clients = [item.client for item in replies]
    result = run_round(asking(engine), 1, clients, SHARED, rules, kept.append)
    return result, kept, engine


def test_the_mean_is_weighted_by_samples():
    result, kept, engine = play(reply("a", 8.0), reply("b", 0.0), reply("c", 2.0))
    assert result.shared["w"].tolist() == [2.0, 2.0]  # (1*8 + 3*0 + 4*2) / 8
    assert result.shared["n"].item() == 5
    assert [item.client for item in kept] == engine.asked == ["c", "b", "a"]  # large ones first
    assert result.loss == 0.5


def test_equal_replies_come_out_bit_for_bit():
    value = torch.tensor([0.1, 1 / 3])
    mean = StreamingMean({"w": value})
    for weight in (3, 7, 11):
        mean.add({"w": value}, weight)
    assert torch.equal(mean.result()["w"], value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"samples": -3}, "reports -3 samples"),
        ({"samples": 300}, "reports 300 samples"),
        ({"shared": {"w": torch.ones(2)}}, "'mean' is missing"),
        ({"personal": {"h": torch.ones(3), "x": torch.ones(1)}}, "'x' is unknown"),
        ({"personal": {"h": torch.ones(1)}}, "has shape (1,)"),
        ({"personal": {"h": torch.ones(3, dtype=torch.float64)}}, "has type torch.float64"),
        ({"personal": {"h": torch.tensor([1, math.nan, 1])}}, "not finite"),
        ({"personal": {"h": torch.tensor([math.inf, -math.inf, 1])}}, "not finite"),
        ({"metrics": {"loss": math.nan}}, "loss is not finite"),
        ({"metrics": {}}, "loss is not finite"),
        ({"metrics": {"loss": "low"}}, "cannot be read"),
        ({"metrics": None}, "cannot be read"),
        ({"samples": 1.0}, "reports 1.0 samples"),
        ({"samples": True}, "reports True samples"),
        ({"personal": {"h": None}}, "cannot be read"),
        ({"personal": {"h": torch.ones(3).to_sparse()}}, "not an ordinary tensor"),
        ({"personal": {"h": torch.ones(3, device="meta")}}, "not an ordinary tensor"),
    ],
)
def test_a_bad_reply_touches_nothing_and_is_named(changes, reason):
    result, kept, _ = play(reply("a", 100.0, **changes), reply("b", 2.0))
    assert result.shared["w"].tolist() == [2.0, 2.0]
    assert [item.client for item in kept] == ["b"]
    assert [item.client for item in result.refused] == ["a"]
    assert reason in result.refused[0].reason


def test_shared_tensors_that_are_not_finite_are_refused():
    shared = {**reply("a").shared, "w": torch.tensor([1.0, math.nan])}
    assert "not finite" in check_reply(reply("a", shared=shared), RULES, SHARED, "a")[0]


def test_large_finite_values_are_not_taken_for_infinite():
    big = reply("a", shared={**reply("a").shared, "w": torch.full((2,), 3e38)})
    assert check_reply(big, replace(RULES, limit=1.0), SHARED, "a")[0] is None
    assert "too large to be squared" in check_reply(big, RULES, SHARED, "a")[0]


def test_long_updates_are_shortened_and_keep_their_direction():
    long = reply("a", shared={**reply("a").shared, "w": torch.tensor([3e38, 4e38 * 0])})
    result, kept, _ = play(long, reply("b", 0.0), rules=replace(RULES, limit=2.0))
    assert result.shared["w"].tolist() == [0.5, 0.0]  # (1*2 + 3*0) / 4
    assert {item.client: item.shared["w"].tolist() for item in kept} == {"a": [2, 0], "b": [0, 0]}
    assert [(item.client, item.allowed) for item in result.shortened] == [("a", 2.0)]
    assert result.accepted[1].update_norm == pytest.approx(3e38)


def test_no_client_weighs_more_than_the_cap():
    rules = replace(RULES, weighing=Weighing(cap=0.4))
    result, _, _ = play(reply("a", 5.0), reply("b", 0.0), reply("c", 0.0), rules=rules)
    assert result.shares == pytest.approx({"a": 0.2, "b": 0.4, "c": 0.4})
    assert result.shared["w"].tolist() == [1.0, 1.0]


def test_a_reply_counts_once_and_only_for_the_client_that_was_asked():
    class Impostor(Scripted):
        def run(self, *arguments):
            for item in super().run(*arguments):
                yield replace(item, client="b", samples=3)

    engine = Impostor(reply("a"), reply("b"))
    result = run_round(asking(engine), 1, ["a", "b"], SHARED, RULES, lambda _: None)
    assert [item.client for item in result.accepted] == ["b"]
    assert [(item.client, item.reason) for item in result.refused] == [
        ("a", "the reply is in the name of b")
    ]


def test_an_update_too_long_to_measure_is_refused():
    shared = {"w": torch.full((2,), 1e308, dtype=torch.float64)}
    rules = replace(RULES, shared=shared, personal={}, parameters=frozenset({"w"}))
    far = reply("a", shared={"w": -shared["w"]}, personal={})
    reason, _ = check_reply(far, rules, shared, "a")
    assert reason == "its shared tensors have values that are not finite"


def test_an_unknown_client_is_refused():
    reason, _ = check_reply(replace(reply("a"), client="mallory"), RULES, SHARED, "a")
    assert reason == "this client is not part of the federation"


def test_the_norm_is_over_parameters_and_can_be_bounded():
    after = {"w": torch.tensor([3.0, 4.0]), "mean": torch.full((2,), 1e9), "n": torch.tensor(9)}
    assert update_norm(SHARED, after, RULES.parameters) == 5.0
    bounded = replace(RULES, max_update_norm=2.0)
    result, _, _ = play(reply("a", 2.0), reply("b", 1.0), rules=bounded)
    assert [item.client for item in result.refused] == ["a"]
    assert "update norm 2.828 is above 2" in result.refused[0].reason


def test_too_few_replies_stop_the_round():
    bad = reply("a", metrics={})
    with pytest.raises(TooFewReplies, match="1 of 2 replies were usable and 2 are needed") as error:
        play(bad, reply("b"), rules=replace(RULES, min_replies=2))
    assert [item.client for item in error.value.refused] == ["a"]
    with pytest.raises(TooFewReplies):
        play(bad)


def test_a_client_that_leaves_does_not_change_the_draw_of_the_others():
    everyone = [f"c{i}" for i in range(20)]
    chosen = choose_clients(everyone, 0.5, 0, 3)
    assert len(chosen) == 10
    gone = next(client for client in everyone if client not in chosen)
    rest = [client for client in everyone if client != gone]
    assert set(choose_clients(rest, 0.5, 0, 3)) <= set(chosen)


def test_draws_differ_between_rounds_and_full_participation_takes_all():
    everyone = [f"c{i}" for i in range(20)]
    rounds = [tuple(choose_clients(everyone, 0.3, 0, number)) for number in range(1, 6)]
    assert len(set(rounds)) > 1
    assert choose_clients(everyone, 1.0, 0, 1) == sorted(everyone)
    assert len(choose_clients(everyone, 0.001, 0, 1)) == 1
