"""Logistic regression on the training nodes, with a column for every class of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from graphconv.estimators.baselines.transductive import FloatMatrix, in_all_classes
from graphconv.graph import IntArray

# Of so many rows the space they span is found faster than it is gained from.
_FEW_ROWS = 500
# Sparse columns as full as that, and no more numbers than that, are faster as a dense array.
_FULL, _MOST_DENSE = 0.1, 30_000_000


@dataclass(frozen=True, eq=False)
class Logistic:
    """A fitted multinomial logistic regression.

    Classes without a training node have logit minus infinity, so their probability is zero.
    """

    weight: FloatMatrix  # (n_columns, n_classes)
    intercept: FloatMatrix  # (n_classes,)

    def logits(self, columns: Any) -> FloatMatrix:
        return cast(FloatMatrix, np.asarray(columns @ self.weight) + self.intercept)

    @property
    def known_classes(self) -> IntArray:
        """Those with a training node."""
        return np.flatnonzero(np.isfinite(self.intercept))

    def probabilities(self, columns: Any) -> FloatMatrix:
        # Without the columns of minus infinity, which take longer than all others.
        known = self.known_classes
        weight = self.weight[:, known]
        logits = np.asarray(columns @ weight) + self.intercept[known]
        return in_all_classes(softmax(logits, axis=1), known, len(self.intercept))


def fit_logistic(columns: Any, labels: IntArray, n_classes: int, C: float) -> Logistic:
    """Fit to the rows of the training nodes; C is the inverse strength of the L2 penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.estimators.baselines._logistic import fit_logistic
    >>> fitted = fit_logistic(np.array([[0.0], [1.0]]), np.array([0, 2]), n_classes=3, C=100.0)
    >>> fitted.probabilities(np.array([[0.0], [1.0]])).round(1)
    array([[0.9, 0. , 0.1],
           [0.1, 0. , 0.9]])
    """
    if not C > 0:
        raise ValueError(f"C must be above 0, got {C!r}")
    n_rows, n_columns = columns.shape
    basis = _row_space(columns) if n_rows < min(n_columns, _FEW_ROWS) else None
    reduced = _quick_to_multiply(columns) if basis is None else np.asarray(columns @ basis)
    model = LogisticRegression(C=C, max_iter=5000, tol=1e-5).fit(reduced, labels)
    weight = np.zeros((reduced.shape[1], n_classes))
    intercept = np.full(n_classes, -np.inf)
    if len(model.classes_) == 2:
        # Of two classes scikit-learn keeps only the second one's logit.
        weight[:, model.classes_[1]] = model.coef_[0]
        intercept[model.classes_] = 0, model.intercept_[0]
    else:
        weight[:, model.classes_] = model.coef_.T
        intercept[model.classes_] = model.intercept_
    return Logistic(weight if basis is None else np.asarray(basis @ weight), intercept)


def _quick_to_multiply(columns: Any) -> Any:
    size = columns.shape[0] * columns.shape[1]
    if sp.issparse(columns) and columns.nnz > _FULL * size and size <= _MOST_DENSE:
        return columns.toarray()
    return columns


def _row_space(columns: Any) -> FloatMatrix:
    """Orthonormal basis of the space that the rows span, (n_columns, rank).

    The best weights lie in it, as the penalty counts all else and the loss does not see it. With
    more columns than rows this makes the regression as small as its number of rows.
    """
    exact = columns.astype(np.float64)
    products = exact @ exact.T
    products = products.toarray() if sp.issparse(products) else products
    values, vectors = np.linalg.eigh(products)
    kept = values >= 1e-10 * values[-1]  # of rows of zeros all, as there must be a column
    return np.asarray(exact.T @ (vectors[:, kept] / np.sqrt(np.maximum(values[kept], 1e-300))))
