"""Material for a report, as a rehearsal and a removal would leave it, from made-up data."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np

HOSTILE = "<script>alert(1)</script>&\"'"

SETTINGS = """\
personalization = "fedrep"
data = "digits"
clients = 10
rounds = 10
seed = 1
model = "mlp:hidden=64"
"""

_SURFACES = {
    "remaining": "the remaining clients' models (mean)",
    "worst": "the remaining client's model that gives away most",
    "stale": "the head that the target took with it",
    "probe": "a new head, fitted on the remaining clients' features",
}
_MEAN_AUC = {"candidate": 0.535, "untouched": 0.74, "oracle": 0.52}
_LIMITS = [
    "Leaks smaller than 0.061 in AUC would not have been seen by the sharpest test.",
    "Attackers with other knowledge than the tested ones may tell more.",
    "Copies that were made of the model before the removal are not covered.",
]


def full(clients: int = 10, layers: int = 5, oracles: int = 2) -> dict[str, Any]:
    """Everything there: a rehearsal, then the removal with the same hashes."""
    rng = np.random.default_rng(7)
    names = [f"client-{i:02d}" for i in range(clients) if i != 5] or ["client-00"]
    plan = _plan(rng, layers)
    figures = {name: _client(rng, layers, oracles) for name in names}
    request = _request(plan, figures)
    evidence = _evidence(rng, plan, request, oracles)
    material = {
        "run": _run(names),
        "settings": SETTINGS,
        "request": request,
        "evidence": evidence,
        "clients": figures,
        "applies": {"holds": True, "differences": []},
    }
    return json.loads(json.dumps(material))


def without_evidence() -> dict[str, Any]:
    """A removal that nobody rehearsed."""
    return {**full(), "evidence": None, "clients": {}, "applies": None}


def rehearsed_only() -> dict[str, Any]:
    """A rehearsal, and no removal yet."""
    return {**full(), "request": None, "applies": None}


def untrained() -> dict[str, Any]:
    """A run in which nothing was asked for."""
    return {**without_evidence(), "request": None}


def other_tensors() -> dict[str, Any]:
    """Trained on between the rehearsal and the removal."""
    material = full()
    material["request"]["shared_sha256_after"] = "0" * 64
    material["applies"] = {
        "holds": False,
        "differences": ["the shared tensors after the removal are others than those tested"],
    }
    return material


def audited() -> dict[str, Any]:
    """Evidence made after the fact: no model from before the removal."""
    material = full()
    evidence = material["evidence"]
    evidence.update(kind="audit", command="pfedul audit runs/demo --target-data samples.npz")
    evidence["surfaces"][2].update(available=False, reason="the stale head was erased")
    evidence["tests"] = [test for test in evidence["tests"] if test["surface"] != "stale"]
    for test in evidence["tests"]:
        test["figures"]["untouched"] = None
        test["untouched_difference"] = test["reduction"] = None
    for key in ("roc", "distributions", "measures"):
        evidence[key] = [row for row in evidence[key] if row["model"] != "untouched"]
    for row in evidence["distance"]:
        row["untouched"] = None
    for key in ("relearn", "backdoor"):
        evidence[key] = None
    for row in material["clients"].values():
        row["auc"]["untouched"] = None
    return material


def strict() -> dict[str, Any]:
    """Eight oracles and eight twins, with the measures that need them."""
    material = full(oracles=8)
    evidence = material["evidence"]
    evidence["level"] = "strict"
    evidence["twins"] = [
        {**oracle, "name": oracle["name"].replace("oracle", "twin")}
        for oracle in evidence["oracles"]
    ]
    row = {"surface": "remaining", "model": "candidate", "low": 0, "high": 1, "interval": None}
    evidence["measures"] += [
        {**row, "attack": "ulira", "metric": "U-LiRA accuracy", "value": 0.5375, "best": 0.5},
        {
            **row,
            "attack": "klom",
            "metric": "KLoM",
            "samples": "forget",
            "value": 0.8125,
            "best": 0,
        },
        {
            **row,
            "attack": "klom",
            "metric": "KLoM",
            "samples": "retain",
            "value": 0.4375,
            "best": 0,
        },
        {**row, "attack": "forgetting-quality", "metric": "forgetting", "value": 0.1875, "best": 1},
    ]
    return material


def leaking(verdict: str = "not forgotten") -> dict[str, Any]:
    """The same with another verdict, and a control that does not hold."""
    material = full()
    evidence = material["evidence"]
    evidence["verdict"] = {
        "verdict": verdict,
        "sentence": "Through the stale head the client's samples can be told nearly as before.",
        "reasons": ["stale, threshold: a leak of +0.190 above the oracles."],
        "limits": _LIMITS,
        "needed": ["Two more oracles."],
    }
    for test in evidence["tests"][6:9]:
        test["finding"] = "leak"
        test["difference"] = {"value": 0.19, "interval": [0.14, 0.24]}
        test["figures"]["candidate"] = {"value": 0.71, "interval": [0.65, 0.77]}
    evidence["controls"][2]["holds"] = False
    return material


def hostile() -> dict[str, Any]:
    """Names of clients that try to be more than names."""
    text = json.dumps(full())
    for name, other in (("client-05", HOSTILE), ("client-03", "$\\frac{a$ *b* |c| `d` url(#x)")):
        text = text.replace(name, json.dumps(other)[1:-1])
    return json.loads(text)


def many() -> dict[str, Any]:
    """Sixty clients, thirty layers."""
    return full(clients=60, layers=30)


def one_layer() -> dict[str, Any]:
    """A model with a single shared layer."""
    return full(layers=1)


def silent() -> dict[str, Any]:
    """Evidence that could measure next to nothing."""
    material = full()
    kept = ("format", "kind", "made_at", "command", "targets", "verdict")
    material["evidence"] = {key: material["evidence"][key] for key in kept}
    material["clients"] = {}
    return material


def unmeasured() -> dict[str, Any]:
    """Evidence in which every figure is missing."""
    material = full()
    material["evidence"] = _without_values(material["evidence"])
    for row in material["clients"].values():
        row["auc"] = dict.fromkeys(row["auc"])
    return material


def _without_values(part: Any) -> Any:
    if isinstance(part, dict):
        gone = ("value", "interval", "spread", "smallest_visible")
        return {k: None if k in gone else _without_values(v) for k, v in part.items()}
    return [_without_values(item) for item in part] if isinstance(part, list) else part


VARIANTS = {
    function.__name__: function
    for function in (
        *(full, without_evidence, rehearsed_only, untrained, other_tensors, audited),
        *(strict, leaking, hostile, many, one_layer, silent, unmeasured),
    )
}


def _run(names: list[str]) -> dict[str, Any]:
    clients = [
        {
            "client": n,
            "status": "active",
            "train_samples": 120,
            "test_samples": 40,
            "joined_round": 0,
        }
        for n in names
    ]
    return {
        "run": "runs/demo",
        "personalization": "fedrep",
        "data": "digits",
        "model": "mlp:hidden=64",
        "rounds": 10,
        "rounds_asked": 10,
        "clients": clients,
        "requests": [],
    }


def _plan(rng: np.random.Generator, layers: int) -> dict[str, Any]:
    scores = rng.uniform(0.05, 0.2, layers)
    threshold = float(scores.mean() + 0.5 * scores.std())
    rows = [
        {
            "name": f"features.{i}",
            "tensors": [f"features.{i}.weight", f"features.{i}.bias"],
            "parameters": 1000 * (i + 1),
            "score": float(score),
            "selected": bool(score > threshold),
            "relative_change": 0.0123 if score > threshold else 0.0,
            "at_bound": 0.25 if score > threshold else 0.0,
        }
        for i, score in enumerate(scores)
    ]
    return {
        "target": ["client-05"],
        "threshold": threshold,
        "layers": rows,
        "correction": "reset:fraction=0.2",
        "notes": [],
    }


def _client(rng: np.random.Generator, layers: int, oracles: int) -> dict[str, Any]:
    before = rng.uniform(0.85, 0.99)
    return {
        "scores": list(rng.uniform(0.05, 0.2, layers)),
        "before": before,
        "after": before - rng.uniform(-0.01, 0.03),
        "oracle": list(before - rng.uniform(-0.02, 0.02, oracles)),
        "auc": {name: float(rng.normal(mean, 0.03)) for name, mean in _MEAN_AUC.items()},
    }


def _request(plan: dict[str, Any], clients: dict[str, Any]) -> dict[str, Any]:
    return {
        "request": 1,
        "targets": ["client-05"],
        "options": {
            "method": "pfedul",
            "alpha": 0.5,
            "correction": "reset:fraction=0.2",
            "recalibration_epochs": 2,
            "no_recalibration": False,
            "repair_rounds": 0,
        },
        "asked_at": "2026-11-16T18:04:00+00:00",
        "finished_at": "2026-11-16T18:04:03+00:00",
        "plan": plan,
        "erased": {"files": 3, "bytes": 45_678, "rows": 27},
        "before": {name: row["before"] for name, row in clients.items()},
        "after": {name: row["after"] for name, row in clients.items()},
        "pps": 0.9874,
        "pps_interval": [0.9765, 0.9983],
        "cfi": 0.9861,
        "cfi_interval": [0.9752, 0.9943],
        "undefined": [],
        "stages": {
            "plan": {"seconds": 0.02, "cpu_seconds": 0.02},
            "correction": {"seconds": 0.01, "cpu_seconds": 0.01},
            "recalibration": {"seconds": 0.31, "cpu_seconds": 0.41},
        },
        "rounds": 0,
        "bytes_broadcast": 123_456,
        "shared_sha256_before": "a1" * 32,
        "shared_sha256_after": "b2" * 32,
        "not_recalibrated": [],
        "notes": ["the correction reset 20 % of the entries of chosen layers"],
        "erased_at_client": {},
    }


def _evidence(
    rng: np.random.Generator, plan: dict[str, Any], request: dict[str, Any], oracles: int
) -> dict[str, Any]:
    models = ["candidate", "untouched", *(f"oracle {i + 1}" for i in range(oracles))]
    kept = ("pps", "pps_interval", "cfi", "cfi_interval", "rounds", "bytes_broadcast", "stages")
    return {
        "format": 1,
        "kind": "rehearsal",
        "made_at": "2026-11-16T18:00:00+00:00",
        "command": "pfedul rehearse runs/demo --client client-05 --level quick",
        "versions": {"pfedul": "0.1.0", "python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6"},
        "machine": "2 cores",
        "targets": ["client-05"],
        "options": request["options"],
        "level": "quick",
        "seed": 1,
        "rounds": 10,
        "configuration": SETTINGS,
        "oracles": [_oracle(i) for i in range(oracles)],
        "twins": [],
        "samples": {
            "members": 120,
            "nonmembers": 40,
            "population": 400,
            "retain": 800,
            "test": 400,
        },
        "hashes": {"shared_before": "a1" * 32, "shared_after": "b2" * 32, "state_after": "c3" * 32},
        "plan": copy.deepcopy(plan),
        "outcome": {key: request[key] for key in (*kept, "erased", "notes")},
        "verdict": {
            "verdict": "forgotten",
            "sentence": "In none of 12 tests could client-05's samples be told better than from "
            "models that were trained without it.",
            "reasons": [
                "All 12 differences to retraining lie within the spread of retraining.",
                "The model before the removal gave the client away in 12 of 12 tests.",
                "All 6 controls hold.",
            ],
            "limits": _LIMITS,
            "needed": [],
        },
        "surfaces": [
            {
                "name": n,
                "title": t,
                "summary": "tested with 120 members",
                "available": True,
                "reason": None,
            }
            for n, t in _SURFACES.items()
        ],
        "tests": [
            _test(rng, surface, attack, models)
            for surface in _SURFACES
            for attack in ("threshold", "logistic", "rmia")
        ],
        "measures": [_measure(rng, surface, model) for surface in _SURFACES for model in models],
        "controls": _controls(),
        "roc": [_roc(surface, model) for surface in _SURFACES for model in models],
        "distributions": [_losses(rng, s, model) for s in _SURFACES for model in models],
        "relearn": _relearn(oracles),
        "distance": [_distance(rng, samples) for samples in ("target", "remaining", "test")],
        "backdoor": {
            "label": 0,
            "figures": {model: _figure(0.9 if model == "untouched" else 0.1) for model in models},
            "finding": "within",
        },
        "preservation": {"oracle": {"assigned": 1.0, "pps": 1.0123, "cfi": 0.9712}},
        "cost": {
            "forget_cpu_seconds": 0.44,
            "retrain_cpu_seconds": 12.34,
            "rehearsal_cpu_seconds": 31.9,
            "training_cpu_seconds": 13.1,
        },
    }


def _oracle(index: int) -> dict[str, Any]:
    return {
        "name": f"oracle {index + 1}",
        "seed": 1000 + index,
        "rounds": 10,
        "cpu_seconds": 12.3 + index,
        "shared_sha256": f"{index:02x}" * 32,
        "cached": index > 0,
    }


def _figure(value: float, half: float = 0.05) -> dict[str, Any]:
    value = float(value)
    return {"value": value, "interval": [max(value - half, 0.0), min(value + half, 1.0)]}


def _mean(model: str) -> float:
    return _MEAN_AUC[model.split()[0]]


def _test(rng: np.random.Generator, surface: str, attack: str, models: list[str]) -> dict[str, Any]:
    figures = {model: _figure(rng.normal(_mean(model), 0.012), 0.06) for model in models}
    oracles = [f["value"] for name, f in figures.items() if name.startswith("oracle")]

    def compared(model: str) -> dict[str, Any]:
        gap = figures[model]["value"] - float(np.mean(oracles))
        return {"value": gap, "interval": [gap - 0.02, gap + 0.02]}

    change = figures["untouched"]["value"] - figures["candidate"]["value"]
    return {
        "surface": surface,
        "attack": attack,
        "metric": "AUC",
        "best": 0.5,
        "figures": figures,
        "difference": compared("candidate"),
        "spread": 0.055,
        "untouched_difference": compared("untouched"),
        "reduction": {"value": change, "interval": [change - 0.03, change + 0.03]},
        "smallest_visible": 0.061,
        "finding": "within",
    }


def _measure(rng: np.random.Generator, surface: str, model: str) -> dict[str, Any]:
    value = float(rng.normal(_mean(model), 0.01))
    return {
        "surface": surface,
        "attack": "threshold",
        "metric": "balanced accuracy",
        "model": model,
        "value": value,
        "interval": [value - 0.05, value + 0.05],
        "best": 0.5,
        "low": 0,
        "high": 1,
        "higher_is_better": None,
    }


def _controls() -> list[dict[str, Any]]:
    rows = (
        ("held-out oracle 1", "pass", "forgotten", "An oracle judged by the others passes."),
        ("held-out oracle 2", "pass", "forgotten", "An oracle judged by the others passes."),
        ("untouched", "fail", "not forgotten", "The model before the removal is caught."),
        ("one more round", "fail", "not forgotten", "One more round with the target is caught."),
        ("noise", "fail", "over-forgotten", "Noise on the answers does not pass."),
        ("no-op", "fail", "not forgotten", "Doing nothing does not pass."),
    )
    keys = ("name", "must", "finding", "summary")
    return [{**dict(zip(keys, row, strict=True)), "holds": True} for row in rows]


def _roc(surface: str, model: str) -> dict[str, Any]:
    fpr = np.concatenate([[0.0], np.geomspace(1 / 400, 1, 100)])
    power = 1 / _mean(model) - 1
    return {
        "surface": surface,
        "attack": "rmia",
        "model": model,
        "fpr": list(fpr),
        "tpr": list(fpr**power),
    }


def _losses(rng: np.random.Generator, surface: str, model: str) -> dict[str, Any]:
    edges = np.linspace(0, 3, 25)
    near = 0.25 if model == "untouched" else 0.6
    members, others = rng.gamma(2, near / 2, 400), rng.gamma(2, 0.65 / 2, 400)
    shares = [np.histogram(np.clip(v, 0, 2.99), edges)[0] / 400 for v in (members, others)]
    return {
        "surface": surface,
        "signal": "loss",
        "model": model,
        "edges": list(edges),
        "members": list(shares[0]),
        "nonmembers": list(shares[1]),
    }


def _relearn(oracles: int) -> dict[str, Any]:
    speeds = {"candidate": 0.9, "untouched": 3.0, "fresh": 0.35}
    speeds |= {f"oracle {i + 1}": 0.8 + 0.05 * i for i in range(oracles)}
    starts = {"untouched": 0.97, "fresh": 0.1}
    curves = {
        model: [1 - (1 - starts.get(model, 0.6)) * float(np.exp(-speed * k)) for k in range(9)]
        for model, speed in speeds.items()
    }
    epochs = {
        model: next((k for k, value in enumerate(curve) if value >= 0.98), None)
        for model, curve in curves.items()
    }
    return {"old_accuracy": 0.99, "tolerance": 0.01, "curves": curves, "epochs": epochs}


def _distance(rng: np.random.Generator, samples: str) -> dict[str, Any]:
    near = float(rng.uniform(0.05, 0.1))
    return {
        "samples": samples,
        "kl": _figure(near, 0.02),
        "agreement": _figure(0.95, 0.02),
        "untouched": {"kl": _figure(near + 0.2, 0.03), "agreement": _figure(0.82, 0.03)},
        "between_oracles": {"kl": [near - 0.02, near + 0.02], "agreement": [0.93, 0.97]},
    }
