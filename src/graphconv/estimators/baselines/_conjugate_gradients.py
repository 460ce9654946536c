"""Conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphconv.estimators.baselines.transductive import FloatMatrix


def solve_columns(
    operator: Callable[[FloatMatrix], FloatMatrix],
    right: FloatMatrix,
    tol: float,
    max_iterations: int,
) -> tuple[FloatMatrix, bool]:
    """Solve M x = b for every column b, where M is symmetric and positive definite.

    Columns go their own way, with step sizes of their own, but share the products with M.

    Parameters
    ----------
    operator : callable
        M applied to a matrix of columns.
    right : array of shape (n, n_columns)
    tol : float
        Stop when the residual of every column is at most this part of its right-hand side.
    max_iterations : int

    Returns
    -------
    solution : array of shape (n, n_columns)
    converged : bool

    Examples
    --------
    >>> import numpy as np
    >>> from graphconv.estimators.baselines._conjugate_gradients import solve_columns
    >>> M = np.array([[2.0, 0.0], [0.0, 4.0]])
    >>> solve_columns(lambda x: M @ x, np.array([[2.0], [2.0]]), 1e-9, 10)
    (array([[1. ],
           [0.5]]), True)
    """
    solution = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    size = np.einsum("ij,ij->j", residual, residual)
    enough = tol**2 * size
    is_open = size > enough
    for _ in range(max_iterations):
        if not is_open.any():
            break
        product = operator(direction)
        curvature = np.einsum("ij,ij->j", direction, product)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=is_open)
        solution += step * direction
        residual -= step * product
        before, size = size, np.einsum("ij,ij->j", residual, residual)
        direction = residual + size / np.maximum(before, 1e-300) * direction
        is_open = size > enough
    return solution, not is_open.any()
