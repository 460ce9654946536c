"""The kernels that training needs, written with torch operations, for any device that torch knows.

Dropout is the hash of `reference`, in integer arithmetic that wraps around: the same elements are
dropped on every device, bit for bit. Sums differ by rounding.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.kernels import Csr, Dropout
from graphconv.kernels.hashing import GOLDEN, MIX_1, MIX_2

_MOST = 1 << 63


class SparseRows(NamedTuple):
    """A sparse matrix and its transpose on a device; entries of a row are sorted by column."""

    shape: tuple[int, int]
    ends: Tensor  # (n_rows + 1,)
    columns: Tensor  # (n_entries,)
    values: Tensor  # (n_entries,)
    transposed_ends: Tensor  # (n_columns + 1,)
    transposed_columns: Tensor  # (n_entries,)
    order: Tensor  # (n_entries,) the entries in the order of the transpose
    rows: Tensor  # (n_entries,) the row of each entry
    places: Tensor  # (n_entries,) its number within the row


def sparse_rows(rows: Csr, n_columns: int, dtype: torch.dtype, device: torch.device) -> SparseRows:
    """Rows of a matrix, copied to a device."""
    lengths = rows.end - rows.begin
    ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    places = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    entries = np.repeat(rows.begin.astype(np.int64), lengths) + places
    columns = rows.indices[entries].astype(np.int64)
    values = np.ones(len(columns)) if rows.values is None else rows.values[entries]
    row = np.repeat(np.arange(len(lengths)), lengths)
    order = np.argsort(columns, kind="stable")
    transposed_ends = np.concatenate(([0], np.cumsum(np.bincount(columns, minlength=n_columns))))
    arrays = [ends, columns, values, transposed_ends, row[order], order, row, places]
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
    tensors[2] = tensors[2].to(dtype)
    return SparseRows((len(lengths), n_columns), *(own.to(device) for own in tensors))


def product(matrix: SparseRows, dense: Tensor, values: Tensor | None = None) -> Tensor:
    """The matrix, perhaps with other values, times a dense one; torch follows the gradient."""
    run: Any = _Product  # whose `apply` torch has no types for
    return cast(Tensor, run.apply(matrix, matrix.values if values is None else values, dense))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseRows, values: Tensor, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values)
        return _times(matrix.ends, matrix.columns, values, matrix.shape, dense)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        matrix, (values,) = ctx.matrix, ctx.saved_tensors
        n_rows, n_columns = matrix.shape
        return (
            None,
            None,
            _times(
                matrix.transposed_ends,
                matrix.transposed_columns,
                values[matrix.order],
                (n_columns, n_rows),
                gradients[0],
            ),
        )


def _times(
    ends: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int], dense: Tensor
) -> Tensor:
    if dense.is_meta:  # shapes alone, where torch has no sparse matrices
        return dense.new_empty((shape[0], dense.shape[1]))
    with warnings.catch_warnings():
        # Torch says once that its sparse rows are young; users can do nothing about it.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        matrix = torch.sparse_csr_tensor(ends, columns, values, shape, check_invariants=False)
    return matrix @ dense.contiguous()


def kept(key: int, threshold: int, row_ids: Tensor, elements: Tensor) -> Tensor:
    """Which (row id, element number) pairs survive; see `kernels.reference.kept`."""
    z = _signed(key) + ((row_ids << 32) + (elements >> 2)) * _signed(GOLDEN)
    z = (z ^ _shifted(z, 30)) * _signed(MIX_1)
    z = (z ^ _shifted(z, 27)) * _signed(MIX_2)
    z = z ^ _shifted(z, 31)
    return ((z >> ((elements & 3) * 16)) & 0xFFFF) < threshold


def _signed(number: int) -> int:
    """The same 64 bits as a number with a sign, which is what torch has."""
    return (number + _MOST) % (2 * _MOST) - _MOST


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shifted to the right, zeros coming in from the left."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def dense_mask(shape: tuple[int, int], dropout: Dropout, row_ids: Tensor) -> Tensor:
    """What dense values are multiplied by, for each replica's block of columns."""
    columns = torch.arange(shape[1] // len(dropout.keys), device=row_ids.device)
    masks = [kept(key, dropout.threshold, row_ids[:, None], columns) for key in dropout.keys]
    return torch.cat(masks, dim=1) * (65536 / dropout.threshold)


def loss(
    logits: Tensor, labels: Tensor, weight: Tensor, with_gradient: bool = False
) -> tuple[Tensor | None, npt.NDArray[np.float64]]:
    """Cross-entropy and what is right; see `kernels.reference.loss`."""
    n_classes = logits.shape[2]
    each = weight.to(logits.dtype)[:, None]
    if labels.ndim == 1:
        logs = torch.log_softmax(logits, dim=2)
        wanted = torch.nn.functional.one_hot(labels, n_classes)[:, None]
        losses = -(logs * wanted).sum(dim=2)
        right = (logits.argmax(dim=2) == labels[:, None]).to(logits.dtype)
        slope = logs.exp() - wanted
    else:
        wanted = labels.to(logits.dtype)[:, None]
        losses = (torch.nn.functional.softplus(logits) - logits * wanted).mean(dim=2)
        right = ((logits > 0) == (wanted > 0.5)).to(logits.dtype).mean(dim=2)
        slope = (torch.sigmoid(logits) - wanted) / n_classes
    scores = torch.stack([(each * losses).sum(dim=0), (each * right).sum(dim=0)])
    gradient = each[:, :, None] * slope if with_gradient else None
    if scores.is_meta:
        return gradient, np.full(scores.shape, np.nan)
    return gradient, scores.cpu().numpy().astype(np.float64)


def agreement(logits: Tensor, temperature: float, is_multilabel: bool = False) -> Tensor:
    """The gradient of what copies disagree by; see `kernels.reference.agreement`."""
    n_copies, n_classes = logits.shape[1], logits.shape[3]
    if is_multilabel:
        shares = torch.sigmoid(logits)
        mean = shares.mean(dim=1, keepdim=True)
        larger = torch.maximum(mean, 1 - mean)
        yes, no = ((own / larger) ** (1 / temperature) for own in (mean, 1 - mean))
        away = 4 / max(1, n_copies * n_classes) * (shares - yes / (yes + no))
        return away * shares * (1 - shares)
    shares = logits.softmax(dim=3)
    mean = shares.mean(dim=1, keepdim=True)
    raised = (mean / mean.amax(dim=3, keepdim=True)) ** (1 / temperature)
    away = 2 / max(1, n_copies) * (shares - raised / raised.sum(dim=3, keepdim=True))
    return shares * (away - (away * shares).sum(dim=3, keepdim=True))


def adam(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    step: int,
    learning_rate: float,
    weight_decay: float,
) -> None:
    """One step of Adam, in place; see `kernels.reference.adam`."""
    slope = gradient + weight_decay * parameter
    mean.lerp_(slope, 0.1)
    square.mul_(0.999).addcmul_(slope, slope, value=0.001)
    correction = float((1 - 0.999**step) ** -0.5)
    parameter.addcdiv_(
        mean, square.sqrt().mul_(correction).add_(1e-8), value=-learning_rate / (1 - 0.9**step)
    )


def get_threads() -> int:
    """A device shares out its work by itself."""
    return 1


def trim_memory() -> None:
    """Let go of memory; nothing is kept here."""
