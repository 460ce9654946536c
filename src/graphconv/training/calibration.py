"""Confidence that can be believed: temperature scaling, and how far off a confidence is.

Probabilities and labels enter, a `Calibration` or an error leaves. A model that says 80 % should be
right in 80 of 100 cases; a GCN with few labels is mostly too modest. Dividing its logits by one
number, the temperature, mends most of that and changes no label (Guo, Pleiss, Sun and Weinberger,
"On calibration of modern neural networks", ICML 2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

FloatMatrix = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
N_BINS = 15
# Logits times or divided by more than this say nothing that a float32 can hold.
_LARGEST_TEMPERATURE = 50.0
_LARGEST_DOUBT = 0.5
# How closely doubt is found.
_DOUBT_STEP = 1e-4
# Before any node is seen, the logarithm of the temperature is taken to lie this near to 0: 95 %
# between 0.37 and 2.7. Five hundred nodes overrule it; thirty do not.
_SPREAD = 0.5
_LEAST_PROBABILITY = 1e-30
# Numbers that a calibration is fitted to, but for so many nodes at least.
_MOST_NUMBERS, _LEAST_NODES = 200_000, 500


class Reliability(NamedTuple):
    """Decisions sorted by confidence into bins of equal width between 0 and 1.

    Parameters
    ----------
    edges : array of shape (n_bins + 1,)
    n_decisions : array of shape (n_bins,)
        Decisions in each bin.
    confidence : array of shape (n_bins,)
        Their mean confidence; NaN in an empty bin.
    accuracy : array of shape (n_bins,)
        The share of them that is right; NaN in an empty bin.
    """

    edges: Floats
    n_decisions: npt.NDArray[np.int64]
    confidence: Floats
    accuracy: Floats

    @property
    def error(self) -> float:
        """Expected calibration error: the mean gap between confidence and accuracy."""
        if not self.n_decisions.sum():
            return float("nan")
        filled = self.n_decisions > 0
        gaps = np.abs(self.confidence - self.accuracy)[filled]
        return float(np.average(gaps, weights=self.n_decisions[filled]))


def decisions(
    probabilities: npt.NDArray[Any], labels: npt.NDArray[np.int64]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Confidence of each decision and whether it is right.

    Of one label per node there is one decision per node; of several, one per (node, class) pair.

    Parameters
    ----------
    probabilities : array of shape (n_nodes, n_classes)
    labels : array of shape (n_nodes,) or (n_nodes, n_classes)
        Class numbers, or 0 and 1 for several labels per node.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.calibration import decisions
    >>> decisions(np.array([[0.75, 0.25], [0.5, 0.5]]), np.array([0, 1]))
    (array([0.75, 0.5 ]), array([ True, False]))
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    if labels.ndim == 2:
        right = (probabilities > 0.5) == (labels > 0)
        return np.maximum(probabilities, 1 - probabilities).ravel(), right.ravel()
    return probabilities.max(axis=1), probabilities.argmax(axis=1) == labels


def reliability(
    probabilities: npt.NDArray[Any], labels: npt.NDArray[np.int64], n_bins: int = N_BINS
) -> Reliability:
    """How often decisions are right, by the confidence they are made with.

    Parameters
    ----------
    probabilities, labels : arrays
        As in `decisions`.
    n_bins : int
        Bins of equal width, 15 as in Guo et al.

    Examples
    --------
    Two nodes held at 75 %, one of them right; a third at 100 %, right:

    >>> import numpy as np
    >>> from graphconv.training.calibration import reliability
    >>> probabilities = np.array([[0.75, 0.25], [0.75, 0.25], [1, 0]])
    >>> bins = reliability(probabilities, np.array([0, 1, 0]), n_bins=2)
    >>> bins.n_decisions.tolist(), bins.accuracy.round(2).tolist()
    ([0, 3], [nan, 0.67])
    >>> round(bins.error, 3)
    0.167
    """
    confidence, right = decisions(probabilities, labels)
    edges = np.linspace(0, 1, n_bins + 1)
    place = np.clip(np.digitize(confidence, edges, right=True) - 1, 0, n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    divisor = np.where(count, count, np.nan)
    return Reliability(
        edges,
        count,
        np.bincount(place, weights=confidence, minlength=n_bins) / divisor,
        np.bincount(place, weights=right, minlength=n_bins) / divisor,
    )


def expected_calibration_error(
    probabilities: npt.NDArray[Any], labels: npt.NDArray[np.int64], n_bins: int = N_BINS
) -> float:
    """The mean gap between confidence and accuracy over bins of equal width; NaN without nodes.

    Parameters
    ----------
    probabilities, labels, n_bins
        As in `reliability`.

    Examples
    --------
    Four nodes held at 75 %, all of them right:

    >>> import numpy as np
    >>> from graphconv.training.calibration import expected_calibration_error
    >>> probabilities = np.array([[0.75, 0.25]] * 4)
    >>> expected_calibration_error(probabilities, np.array([0, 0, 0, 0]))
    0.25
    """
    return reliability(probabilities, labels, n_bins).error


@dataclass(frozen=True)
class Calibration:
    """What turns a model's probabilities into ones that can be believed; labels stay.

    Parameters
    ----------
    temperature : float
        Logits are divided by it: above 1 it takes confidence back, below 1 it adds some.
    doubt : float
        A share of the result that all classes get alike, so that nothing is quite certain.
    class_factors : tuple of float
        What each class is multiplied by afterwards, see `graphconv.training.class_prior`: this may
        change labels. Empty for nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.calibration import Calibration
    >>> Calibration(temperature=0.5).apply(np.array([[0.8, 0.2]])).round(2)
    array([[0.94, 0.06]], dtype=float32)
    >>> Calibration(doubt=0.1).apply(np.array([[0.8, 0.2]])).round(2)
    array([[0.77, 0.23]], dtype=float32)
    """

    temperature: float = 1.0
    doubt: float = 0.0
    class_factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_factors", tuple(self.class_factors))
        if not all(0 <= factor < math.inf for factor in self.class_factors):
            raise ValueError("class_factors must be at least 0 and finite")
        # Files hold them, too. NaN is neither more nor less than anything.
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be above 0 and finite, got {self.temperature}")
        if not 0 <= self.doubt <= 1:
            raise ValueError(f"doubt must be from 0 to 1, got {self.doubt}")

    @property
    def changes_nothing(self) -> bool:
        return self == Calibration()

    def to_json(self) -> dict[str, Any]:
        """As it is saved; without class factors where there are none, as ever."""
        values = asdict(self)
        if not self.class_factors:
            del values["class_factors"]
        return values

    def reweighed(self, probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Probabilities, classes last, with the class factors alone."""
        if not self.class_factors:
            return probabilities
        weighted = probabilities * np.asarray(self.class_factors, dtype=np.float32)
        total = weighted.sum(axis=-1, keepdims=True)
        # A node whose every class has become impossible keeps what it had.
        safe = np.where(total > 0, total, 1)
        return np.where(total > 0, weighted / safe, probabilities).astype(np.float32)

    def apply(self, probabilities: npt.NDArray[Any], is_multilabel: bool = False) -> FloatMatrix:
        """Calibrated probabilities.

        Parameters
        ----------
        probabilities : array of shape (n_nodes, n_classes)
        is_multilabel : bool
            Whether each class is decided for itself, at one half.
        """
        given = np.asarray(probabilities, dtype=np.float32)
        if self.changes_nothing:
            return given
        scaled = _scale(_logits(given, is_multilabel), self, is_multilabel).astype(np.float32)
        # Rounding can make two classes equal that were not: the likelier one must stay ahead.
        if is_multilabel:
            lost = (given > 0.5) & (scaled <= 0.5)
            scaled[lost] = np.nextafter(np.float32(0.5), np.float32(np.inf))
            return scaled
        first = given.argmax(axis=1)
        rows = np.flatnonzero(scaled.argmax(axis=1) != first)
        scaled[rows, first[rows]] = np.nextafter(scaled[rows].max(axis=1), np.float32(np.inf))
        return self.reweighed(scaled)


def calibrate_apart(
    probabilities: npt.NDArray[Any],
    calibration: Calibration,
    other: Calibration | None,
    is_other: npt.NDArray[np.bool_],
    is_multilabel: bool = False,
) -> FloatMatrix:
    """Calibrated probabilities where some nodes have a calibration of their own.

    Parameters
    ----------
    probabilities : array of shape (n_nodes, n_classes)
    calibration : Calibration
    other : Calibration or None
        None: there is none but the first.
    is_other : array of shape (n_nodes,)
        Which nodes the other one is for.
    is_multilabel : bool

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.training.calibration import Calibration, calibrate_apart
    >>> shares = np.array([[0.8, 0.2], [0.8, 0.2]])
    >>> apart = np.array([False, True])
    >>> calibrate_apart(shares, Calibration(), Calibration(doubt=0.5), apart).round(2)
    array([[0.8 , 0.2 ],
           [0.65, 0.35]], dtype=float32)
    """
    found = calibration.apply(probabilities, is_multilabel)
    if other is None or not is_other.any():
        return found
    found = np.array(found)
    found[is_other] = other.apply(probabilities[is_other], is_multilabel)
    return found


def fit_calibration(probabilities: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> Calibration:
    """The calibration that makes the labels of validation nodes likeliest.

    A temperature alone leaves a GCN too sure of its best guesses and not sure enough of middling
    ones: on Citeseer the error stays above 5 %. A share of doubt beside it mends that; together
    they are the temperature and the uniform part of Zhang, Kailkhura and Han's ensemble
    temperature scaling (ICML 2020).

    Few nodes must not say too much. The labels are mixed with a node's worth of doubt, as Platt
    did: else a model that is right on all its validation nodes would become certain of everything.
    And a temperature near 1 is taken to be likelier than one far away: else, of 38 nodes with one
    mistake, doubt would explain all and every node would get the same confidence.

    Early stopping has looked at the same nodes: it kept the weights, or chose the moment, that suit
    them best. So the model looks somewhat better on them than it is, and comes out somewhat too
    sure. With two numbers to fit that is a small matter, and the error after calibration, measured
    on test nodes that neither step has seen, includes it. Setting labels aside for calibration
    alone would cost accuracy.

    Parameters
    ----------
    probabilities : array of shape (n_nodes, n_classes)
        Of the validation nodes; each row adds up to 1, unless nodes have several labels.
    labels : array of shape (n_nodes,) or (n_nodes, n_classes)

    Examples
    --------
    Right in nine of ten cases but held at 60 %: more confidence is due.

    >>> import numpy as np
    >>> from graphconv.training.calibration import fit_calibration
    >>> probabilities = np.array([[0.6, 0.4]] * 1000)
    >>> labels = np.array([0] * 900 + [1] * 100)
    >>> fit_calibration(probabilities, labels).apply(probabilities[:1]).round(1)
    array([[0.9, 0.1]], dtype=float32)
    """
    if len(labels) == 0:
        raise ValueError("calibration must be fitted to at least one node, got none")
    is_multilabel = labels.ndim == 2
    # Two numbers need no more nodes than this, and every one is looked at hundreds of times.
    most = max(_LEAST_NODES, _MOST_NUMBERS // probabilities.shape[1])
    some = np.linspace(0, len(labels) - 1, min(len(labels), most)).astype(np.int64)
    probabilities, labels = probabilities[some], labels[some]
    logits = _logits(probabilities, is_multilabel)
    wanted = _softened(labels, logits.shape[1])

    even = 0.5 if is_multilabel else 1 / logits.shape[1]

    def best(power: float) -> tuple[float, float]:
        """The lowest loss with a temperature, given as its logarithm, and the doubt that has it."""
        probabilities = _probabilities(logits / math.exp(power), is_multilabel)
        doubt = _best_doubt(probabilities, wanted, even, is_multilabel)
        probabilities += doubt * (even - probabilities)
        total = _log_likelihood(probabilities, wanted)
        if is_multilabel:
            total += _log_likelihood(1 - probabilities, 1 - wanted)
        return (power / _SPREAD) ** 2 / 2 - total, doubt

    limit = math.log(_LARGEST_TEMPERATURE)
    power = _lowest(lambda power: best(power)[0], -limit, limit)
    return Calibration(math.exp(power), best(power)[1])


def _log_likelihood(probabilities: Floats, wanted: Floats) -> float:
    return float((np.log(np.maximum(probabilities, _LEAST_PROBABILITY)) * wanted).sum())


def _best_doubt(probabilities: Floats, wanted: Floats, even: float, is_multilabel: bool) -> float:
    """The doubt that makes labels likeliest, by halves: the loss is convex in it."""
    shift = even - probabilities
    if is_multilabel:  # that a label is not there is an answer as well
        probabilities = np.concatenate([probabilities, 1 - probabilities])
        shift, wanted = np.concatenate([shift, -shift]), np.concatenate([wanted, 1 - wanted])
    probabilities = np.maximum(probabilities, _LEAST_PROBABILITY)
    wanted = wanted * shift

    def helps(doubt: float) -> bool:
        """Whether more doubt makes the labels likelier."""
        return bool((wanted / (probabilities + doubt * shift)).sum() > 0)

    if not helps(0.0):
        return 0.0
    low, high = 0.0, _LARGEST_DOUBT
    while high - low > _DOUBT_STEP:
        middle = (low + high) / 2
        if helps(middle):
            low = middle
        else:
            high = middle
    return low


def _softened(labels: npt.NDArray[np.int64], n_classes: int) -> Floats:
    """Labels as probabilities, mixed with a node's worth of doubt."""
    doubt = 1 / (len(labels) + 1)
    if labels.ndim == 2:
        return cast(Floats, (1 - doubt) * (labels > 0) + doubt / 2)
    wanted = np.full((len(labels), n_classes), doubt / n_classes)
    wanted[np.arange(len(labels)), labels] += 1 - doubt
    return wanted


def _lowest(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is lowest, to a thousandth, by golden sections."""
    ratio = (np.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 1e-3:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return float((low + high) / 2)


def _logits(probabilities: npt.NDArray[Any], is_multilabel: bool) -> Floats:
    """Numbers whose softmax, or sigmoid, the probabilities are."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    logits = np.log(np.maximum(probabilities, _LEAST_PROBABILITY))
    if is_multilabel:
        # A float32 can't come nearer to 1 than this without being 1.
        logits -= np.log(np.maximum(1 - probabilities, 2.0**-25))
    return cast(Floats, logits)


def _probabilities(logits: Floats, is_multilabel: bool) -> Floats:
    if is_multilabel:
        probabilities: Floats = 1 / (1 + np.exp(-np.maximum(logits, -700)))
        return probabilities
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return cast(Floats, powers / powers.sum(axis=1, keepdims=True))


def _scale(logits: Floats, calibration: Calibration, is_multilabel: bool) -> Floats:
    probabilities = _probabilities(logits / calibration.temperature, is_multilabel)
    even = 0.5 if is_multilabel else 1 / logits.shape[1]
    return (1 - calibration.doubt) * probabilities + calibration.doubt * even
