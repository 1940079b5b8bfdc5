"""Our attacks compared with other software, on the same overfit models.

    python bench/crosscheck.py

adversarial-robustness-toolbox (membership attacks), sacroml (LiRA), scikit-learn (AUC
and ROC) and scipy (exact intervals) answer the same questions as `pfedul.audit`. They
are installed into an environment of their own. sacroml comes without its dependencies:
xgboost would bring a GPU library, and LiRA needs neither. Its LiRA trains shadow models
itself; to give both sides the same outputs, its scoring step is called directly.

Prints one line per comparison; exits with 1 if two results that must agree do not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
ROOT = HERE.parent
VENV = HERE / ".crosscheck-venv"
TOOLBOX = "adversarial-robustness-toolbox==1.20.1"
SACROML = "sacroml==2.0.1"
SACROML_NEEDS = ["fpdf", "pypdf", "pandas", "pyyaml"]

Array = NDArray[np.float64]
SAMPLES = 300  # members, and as many non-members
SHADOWS = 16
CLASSES = 10
SEED = 0


def install() -> Path:
    """A virtual environment with pfedul and the peers; returns its python."""
    python = VENV / "bin/python"
    if not (VENV / ".ready").exists():
        print("installing the peers into their own environment ...", file=sys.stderr)
        constraint = ["-c", str(ROOT / "constraints.txt")]
        pip = [str(python), "-m", "pip", "install", "--quiet", *constraint]
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([*pip, "torch"], check=True)
        subprocess.run([*pip, "-e", str(ROOT), TOOLBOX, *SACROML_NEEDS], check=True)
        subprocess.run([*pip, "--no-deps", SACROML], check=True)
        (VENV / ".ready").touch()
    return python


@dataclass(frozen=True)
class Line:
    """One comparison; `tolerance` is None if the two are related but not the same."""

    what: str
    theirs: float
    ours: float
    tolerance: float | None

    @property
    def agrees(self) -> bool:
        return self.tolerance is None or abs(self.theirs - self.ours) <= self.tolerance

    def __str__(self) -> str:
        verdict = "related" if self.tolerance is None else "agrees" if self.agrees else "DIFFERS"
        difference = abs(self.theirs - self.ours)
        return f"{self.what:62} {self.theirs:9.5f} {self.ours:9.5f}   {difference:8.1e}   {verdict}"


@dataclass(frozen=True)
class Case:
    """An overfit model with members first, then non-members, and shadow models of it."""

    samples: Array
    labels: NDArray[np.int64]
    model: Any
    confidences: Array
    shadow_confidences: Array
    shadow_saw: NDArray[np.bool_]

    @property
    def logits(self) -> Array:
        return np.log(self.confidences)


def overfit_case() -> Case:
    """Digits of which a fifth have a random label, which a model can only memorise."""
    from sklearn.datasets import load_digits

    stream = np.random.default_rng(SEED)
    samples, labels = load_digits(return_X_y=True)
    chosen = stream.permutation(len(samples))[: 2 * SAMPLES]
    samples, labels = samples[chosen] / 16, labels[chosen].astype(np.int64)
    noisy = stream.random(2 * SAMPLES) < 0.2
    labels[noisy] = stream.integers(CLASSES, size=int(noisy.sum()))
    saw = np.array([stream.permutation(2 * SAMPLES) < SAMPLES for _ in range(SHADOWS)])
    model = fitted(samples[:SAMPLES], labels[:SAMPLES], 0)
    shadows = [
        fitted(samples[mask], labels[mask], 1 + index).predict_proba(samples)
        for index, mask in enumerate(saw)
    ]
    return Case(samples, labels, model, probabilities(model, samples), np.array(shadows), saw)


def fitted(samples: Array, labels: NDArray[np.int64], seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    # The random labels are learned long before the loss stops falling.
    warnings.simplefilter("ignore", ConvergenceWarning)
    model = MLPClassifier((64,), alpha=0, learning_rate_init=0.01, max_iter=150, random_state=seed)
    return model.fit(samples, labels)


def probabilities(model: Any, samples: Array) -> Array:
    return np.asarray(model.predict_proba(samples), dtype=np.float64)


def with_scikit_learn(case: Case) -> list[Line]:
    """AUC and every point of the ROC curve of the same scores, with ties."""
    from sklearn.metrics import roc_auc_score, roc_curve

    from pfedul.audit.attacks.roc import auc, roc
    from pfedul.audit.attacks.signals import loss

    scores = np.round(-loss(case.logits, case.labels), 1)
    members, nonmembers = scores[:SAMPLES], scores[SAMPLES:]
    is_member = np.repeat([1, 0], SAMPLES)
    fpr, tpr, _ = roc_curve(is_member, scores, drop_intermediate=False)
    distance = np.abs(np.array(roc(members, nonmembers)) - np.array([fpr, tpr])).max()
    return [
        Line("scikit-learn: AUC", roc_auc_score(is_member, scores), auc(members, nonmembers), 1e-9),
        Line("scikit-learn: ROC curve, largest distance of a point", 0.0, float(distance), 1e-9),
    ]


def with_scipy() -> list[Line]:
    """Both ends of exact intervals."""
    from scipy.stats import binomtest

    from pfedul.audit.attacks.intervals import clopper_pearson

    lines = []
    for hits, trials in ((0, 30), (3, 200), (199, 200), (700, 2000)):
        theirs = binomtest(hits, trials).proportion_ci(0.95, "exact")
        ours = clopper_pearson(hits, trials)
        what = f"scipy: exact interval of {hits} in {trials}"
        lines += [
            Line(f"{what}, low", theirs.low, ours[0], 1e-9),
            Line(f"{what}, high", theirs.high, ours[1], 1e-9),
        ]
    return lines


def with_toolbox(case: Case) -> list[Line]:
    """The rule "right means member", its regression on our features, and its own forest."""
    from art.attacks.inference.membership_inference import (  # type: ignore[import-not-found]
        MembershipInferenceBlackBox,
        MembershipInferenceBlackBoxRuleBased,
    )
    from art.estimators.classification.scikitlearn import (  # type: ignore[import-not-found]
        ScikitlearnClassifier,
    )

    from pfedul.audit.attacks.logistic import logistic_attack, logistic_scores
    from pfedul.audit.attacks.roc import auc
    from pfedul.audit.attacks.signals import correctness, loss
    from pfedul.audit.attacks.threshold import threshold_attack

    estimator = ScikitlearnClassifier(case.model)
    called = MembershipInferenceBlackBoxRuleBased(estimator).infer(case.samples, case.labels)
    right = correctness(case.logits, case.labels)
    losses = loss(case.logits, case.labels)
    threshold = threshold_attack(losses[:SAMPLES], losses[SAMPLES:], SEED)
    logistic = logistic_attack(*split(case.logits, case.labels), SEED)
    regression = MembershipInferenceBlackBox(estimator, attack_model_type="lr")
    forest = MembershipInferenceBlackBox(estimator, attack_model_type="rf")
    theirs = cross_fitted(regression, case)
    return [
        Line("toolbox: rule 'right means member', balanced accuracy", rate(called), rate(right), 0),
        Line(
            "toolbox: that rule, and our loss threshold",
            rate(called),
            threshold.value,
            None,
        ),
        Line(
            "toolbox: regression on our features, balanced accuracy",
            theirs,
            logistic.value,
            5e-3,
        ),
        Line(
            "toolbox: forest on answers and labels, and our regression, AUC",
            forest_auc(forest, case),
            auc(*logistic_scores(*split(case.logits, case.labels), SEED)),
            None,
        ),
    ]


def split(logits: Array, labels: NDArray[np.int64]) -> tuple[Array, Any, Array, Any]:
    """Members' logits and labels, then non-members'."""
    return logits[:SAMPLES], labels[:SAMPLES], logits[SAMPLES:], labels[SAMPLES:]


def rate(called: Any) -> float:
    """Balanced accuracy of 1 for member and 0 for non-member."""
    flat = np.ravel(called)
    return float((flat[:SAMPLES].mean() + 1 - flat[SAMPLES:].mean()) / 2)


def cross_fitted(attack: Any, case: Case) -> float:
    """Balanced accuracy of the toolbox's regression on our features, in our halves."""
    from sklearn.metrics import balanced_accuracy_score

    from pfedul.audit.attacks.arrays import halves
    from pfedul.audit.attacks.logistic import features

    table = features(case.logits, case.labels)
    inside = halves(table[:SAMPLES], SEED, "members")
    outside = halves(table[SAMPLES:], SEED, "non-members")
    found = []
    for fit, tried in ((0, 1), (1, 0)):
        attack.fit(pred=inside[fit], test_pred=outside[fit])
        rows = np.concatenate([inside[tried], outside[tried]])
        scores = np.ravel(attack.infer(None, pred=rows, probabilities=True))
        is_member = np.repeat([1, 0], [len(inside[tried]), len(outside[tried])])
        found.append(balanced_accuracy_score(is_member, scores > 0.5))
    return float(np.mean(found))


def forest_auc(attack: Any, case: Case) -> float:
    """The toolbox's attack as its users run it: fitted on every other sample, tried on the rest."""
    from sklearn.metrics import roc_auc_score

    inside, outside = np.arange(SAMPLES), np.arange(SAMPLES, 2 * SAMPLES)
    x, y = case.samples, case.labels
    attack.fit(x[inside[::2]], y[inside[::2]], x[outside[::2]], y[outside[::2]])
    tried = np.concatenate([inside[1::2], outside[1::2]])
    scores = np.ravel(attack.infer(x[tried], y[tried], probabilities=True))
    return float(roc_auc_score(tried < SAMPLES, scores))


def with_sacroml(case: Case) -> list[Line]:
    """LiRA's log likelihood ratio from the same shadow models, and its AUC."""
    from sacroml.attacks.likelihood_attack import LIRAAttack  # type: ignore[import-not-found]
    from sacroml.attacks.utils import logit  # type: ignore[import-not-found]

    from pfedul.audit.attacks.roc import auc
    from pfedul.audit.attacks.ulira import log_likelihood_ratio

    rows = np.arange(len(case.labels))
    phi = np.vectorize(logit)(case.shadow_confidences[:, rows, case.labels])
    seen = [phi[case.shadow_saw[:, row], row] for row in rows]
    unseen = [phi[~case.shadow_saw[:, row], row] for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        attack = LIRAAttack(folder, False, SHADOWS, mode="online-carlini")
        pairs, _ = attack._compute_scores(
            case.labels, case.confidences, dict(enumerate(unseen)), dict(enumerate(seen))
        )
        attack._save_attack_metrics(pairs, SAMPLES, SAMPLES, 0)
    theirs = np.array(pairs)[:, 1]
    target = np.vectorize(logit)(case.confidences[rows, case.labels])
    ours = log_likelihood_ratio(target, *moments(seen), *moments(unseen))
    largest = np.abs(theirs - ours).max() / np.abs(theirs).max()
    area = attack.attack_metrics[0]["AUC"]
    return [
        Line("sacroml: LiRA's log ratio, largest relative difference", 0.0, float(largest), 1e-9),
        Line("sacroml: LiRA's AUC", area, auc(ours[:SAMPLES], ours[SAMPLES:]), 1e-6),
    ]


def moments(values: list[Array]) -> tuple[Array, Array]:
    """Mean and variance of each sample's values, as sacroml takes them: divided by n."""
    return np.array([part.mean() for part in values]), np.array([part.var() for part in values])


def compare() -> int:
    """Print every line; returns how many that must agree do not."""
    case = overfit_case()
    lines = with_scikit_learn(case) + with_scipy() + with_toolbox(case) + with_sacroml(case)
    print(f"{'':62} {'theirs':>9} {'ours':>9}   distance")
    print(*lines, sep="\n")
    return sum(not line.agrees for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inside", action="store_true", help="the peers are installed: compare")
    if parser.parse_args().inside:
        sys.exit(1 if compare() else 0)
    sys.exit(subprocess.run([str(install()), __file__, "--inside"], check=False).returncode)


if __name__ == "__main__":
    main()
