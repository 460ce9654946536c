"""What the native kernels say of arguments that are not what they should be."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from graphconv.kernels import Csr, Dropout, PackedRows

KEY, HALF = 0x0123456789ABCDEF, 1 << 15


ENDS = np.array([0, 1, 3, 3, 5], np.int32)
ROWS = Csr(ENDS[:-1], ENDS[1:], np.array([0, 1, 5, 2, 3], np.int32), np.ones(5, np.float32))
SQUARE = ROWS._replace(indices=np.array([0, 1, 3, 2, 3], np.int32))
SIX_ENDS = np.array([0, 1, 3, 3, 5, 5, 5], np.int32)
SIX_ROWS = ROWS._replace(begin=SIX_ENDS[:-1], end=SIX_ENDS[1:])
WEIGHT, DENSE = np.ones((6, 8), np.float32), np.ones((4, 8), np.float32)
HALF_DROPPED = Dropout((KEY,), HALF)
LAYER = np.ones((4, 1, 2, 3), np.float32)
LOGITS, LABELS, SHARES = np.ones((4, 2, 4), np.float32), np.zeros(4, np.int64), np.full(4, 0.25)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("propagate", (None, WEIGHT), TypeError, "rows must be a Csr"),
        ("propagate", (ROWS[:3], WEIGHT), TypeError, "rows must be a Csr"),
        ("propagate", (ROWS, [[1.0]]), TypeError, "dense must be a numpy array, got list"),
        ("propagate", (ROWS, None), TypeError, "dense must be a numpy array, got NoneType"),
        ("propagate", (ROWS, WEIGHT[0]), ValueError, "dense must have two dimensions"),
        ("propagate", (ROWS, WEIGHT.T), ValueError, "dense must be C-contiguous"),
        ("propagate", (ROWS, WEIGHT.astype(int)), TypeError, "dense must be float32 or float64"),
        ("propagate", (ROWS, WEIGHT.astype(">f4")), TypeError, "dense must be float32 or float64"),
        ("propagate", (ROWS, WEIGHT.astype(float)), TypeError, "rows.values must be float64 like"),
        (
            "propagate",
            (ROWS, WEIGHT, np.ones(5, np.float32)),
            ValueError,
            r"row_scale must have shape \(4,\), one for each row, got shape \(5,\)",
        ),
        ("propagate", (ROWS, WEIGHT, None, np.ones(6)), TypeError, "column_scale must be float32"),
        ("propagate", (ROWS, WEIGHT, None, None, "a"), TypeError, "self_weight must be a number"),
        (
            "propagate",
            (ROWS._replace(end=ROWS.end[1:]), WEIGHT),
            ValueError,
            r"rows.end must have shape \(4,\) like rows.begin, got shape \(3,\)",
        ),
        (
            "propagate",
            (ROWS._replace(indices=ROWS.indices.astype(np.int64)), WEIGHT),
            TypeError,
            "rows.indices must be int32 like rows.begin, got int64",
        ),
        (
            "propagate",
            (ROWS._replace(values=np.ones(1, np.float32)), WEIGHT),
            ValueError,
            "rows.values must have shape",
        ),
        (
            "propagate",
            (ROWS._replace(begin=ROWS.begin.astype(float)), WEIGHT),
            TypeError,
            "rows.begin must be int32 or int64",
        ),
        (
            "propagate_beside",
            (ROWS, WEIGHT[:, :7].copy()),
            ValueError,
            "dense must have columns of two terms, got 7",
        ),
        (
            "propagate_beside",
            (SIX_ROWS._replace(indices=SQUARE.indices), DENSE),
            ValueError,
            "dense must have a row for each of rows, got 4 for 6",
        ),
        ("propagate_dropped", (ROWS, WEIGHT, None), TypeError, "dropout must be a Dropout"),
        (
            "propagate_dropped",
            (ROWS, WEIGHT, HALF_DROPPED, np.arange(4)),
            ValueError,
            r"row_ids must have shape \(6,\), one for each row, got shape \(4,\)",
        ),
        (
            "propagate_sparse",
            (ROWS, SIX_ROWS, 6, np.ones(3, np.float32)),
            ValueError,
            r"row_scale must have shape \(4,\), one for each row, got shape \(3,\)",
        ),
        (
            "propagate_sparse",
            (ROWS, SIX_ROWS._replace(values=np.ones(5)), 6),
            TypeError,
            "rows.values must be float64 like entries",
        ),
        ("propagate_sparse", (ROWS, SIX_ROWS, 6, None, None, "a"), TypeError, "self_weight must"),
        ("feature_product", (ROWS, WEIGHT, 0.5), TypeError, "dropout must be a Dropout or None"),
        ("feature_product", (ROWS, WEIGHT, Dropout((), HALF)), ValueError, "dropout.keys must be"),
        ("feature_product", (ROWS, WEIGHT, Dropout((-1,), 9)), ValueError, "dropout.keys must be"),
        ("feature_product", (ROWS, WEIGHT, Dropout((2**64,), 9)), ValueError, "dropout.keys must"),
        (
            "feature_product",
            (ROWS, WEIGHT, Dropout((1, 2, 3), HALF)),
            ValueError,
            "multiple of the number of dropout keys, got 8 columns and 3 keys",
        ),
        ("feature_product", (ROWS, WEIGHT, Dropout((1,), 0)), ValueError, "in 1 .. 65536, got 0"),
        ("feature_product", (ROWS, WEIGHT, Dropout((1,), 65537)), ValueError, "got 65537"),
        (
            "feature_product",
            (ROWS, WEIGHT, Dropout((1,), 0.5)),
            TypeError,
            "dropout.threshold must be an integer",
        ),
        (
            "feature_product",
            (ROWS, WEIGHT, HALF_DROPPED, np.arange(4, dtype=np.int32)),
            TypeError,
            "row_ids must be int64, got int32",
        ),
        ("feature_product", (ROWS, WEIGHT, HALF_DROPPED, np.arange(3)), ValueError, "row_ids must"),
        (
            "feature_product_transposed",
            (ROWS, WEIGHT, 6),
            ValueError,
            "dense must have one row for each row of the features, got 6 for 4",
        ),
        (
            "feature_product_transposed",
            (ROWS, DENSE, -1),
            ValueError,
            "n_columns must be at least 0, got -1",
        ),
        ("feature_product_transposed", (ROWS, DENSE, "6"), TypeError, "n_columns must be an int"),
        ("pack_rows", (ROWS, -1, 2), ValueError, "n_columns must be at least 0, got -1"),
        ("pack_rows", (ROWS, 6, 0), ValueError, "n_ranges must be at least 1, got 0"),
        (
            "packed_product",
            (PackedRows(SIX_ROWS, 0), WEIGHT),
            ValueError,
            "n_ranges must be at least 1, got 0",
        ),
        (
            "packed_product",
            (PackedRows(SIX_ROWS, 4), WEIGHT),
            ValueError,
            "pieces must be a multiple of n_ranges, got 6 and 4",
        ),
        (
            "packed_product",
            (PackedRows(SIX_ROWS._replace(values=None), 2), WEIGHT),
            ValueError,
            "rows.values must not be None",
        ),
        ("dropout_dense", (DENSE[:, ::2], None, None), ValueError, "dense must be C-contiguous"),
        (
            "dropout_dense_backward",
            (WEIGHT, DENSE, None, None),
            ValueError,
            "gradient must have the shape of dense",
        ),
        (
            "dropout_dense_backward",
            (DENSE.astype(float), DENSE, None, None),
            TypeError,
            "gradient must be float32 like dense, got float64",
        ),
        (
            "hidden_product",
            (DENSE, np.ones((8, 1, 1), np.float32)),
            ValueError,
            r"weight must have four dimensions, got shape \(8, 1, 1\)",
        ),
        (
            "hidden_product",
            (DENSE, LAYER.astype(float)),
            TypeError,
            "weight must be float32 like dense",
        ),
        (
            "hidden_product",
            (DENSE[:, :6].copy(), LAYER),
            ValueError,
            "a column for each replica and input of the weight, got 6 for 2 times 4",
        ),
        (
            "hidden_product",
            (DENSE, LAYER, HALF_DROPPED),
            ValueError,
            "dropout must have a key for each replica, got 1 for 2",
        ),
        (
            "hidden_product_backward",
            (np.ones((4, 7), np.float32), DENSE, LAYER),
            ValueError,
            r"gradient must have 24 elements, one for each of the product, got shape \(4, 7\)",
        ),
        (
            "wide_product",
            (DENSE[:, :6].copy(), LAYER),
            ValueError,
            "a column for each replica and input of the weight, got 6 for 2 times 4",
        ),
        (
            "wide_product",
            (DENSE, LAYER, None, None, False, np.ones(5, np.float32)),
            ValueError,
            r"bias must have 6 elements, one for each column of the product, got shape \(5,\)",
        ),
        (
            "wide_product_backward",
            (np.ones((4, 6), np.float32), DENSE[:, :4].copy(), LAYER),
            ValueError,
            "a column for each replica and input of the weight, got 4 for 2 times 4",
        ),
        (
            "propagate",
            (ROWS, WEIGHT, None, None, 0.0, None, np.ones(5, np.float32)),
            ValueError,
            r"bias must have 8 elements, one for each column, got shape \(5,\)",
        ),
        ("walks", (ROWS, np.ones(5), LABELS, 2, 1), ValueError, "totals must have shape"),
        ("walks", (ROWS, None, LABELS.astype(float), 2, 1), TypeError, "starts must be int64"),
        ("walks", (SQUARE, None, LABELS, -1, 1), ValueError, "n_steps must be at least 0, got -1"),
        ("walks", (SQUARE, None, LABELS, 2, -1), ValueError, "key must be an integer of 64 bits"),
        ("loss", (DENSE, LABELS, SHARES), ValueError, "logits must have three dimensions"),
        ("loss", (LOGITS, LABELS[:2], SHARES), ValueError, r"labels must have shape \(4,\)"),
        ("loss", (LOGITS, LABELS.astype(np.int32), SHARES), TypeError, "labels must be int64"),
        ("loss", (LOGITS, LABELS, DENSE[:, 0].copy()), TypeError, "weight must be float64"),
        ("loss", (LOGITS, np.ones((4, 4)), SHARES), TypeError, "labels must be float32 like logi"),
        (
            "loss",
            (LOGITS, np.ones((4, 3), np.float32), SHARES),
            ValueError,
            "labels must have 16 elements, one for each row and class",
        ),
        ("column_sums", (LOGITS,), ValueError, "rows must have two dimensions"),
        ("column_sums", (DENSE.T,), ValueError, "rows must be C-contiguous"),
        ("column_sums", (DENSE.astype(int),), TypeError, "rows must be float32 or float64"),
        ("agreement", (LOGITS, 0.5), ValueError, "logits must have four dimensions"),
        ("agreement", (LAYER.astype(int), 0.5), TypeError, "logits must be float32 or float64"),
        ("agreement", (LAYER, "a"), TypeError, "temperature must be a number"),
        ("agreement", (LAYER, 0), ValueError, "temperature must be above 0"),
        ("agreement", (LAYER, -0.5), ValueError, "temperature must be above 0"),
        ("agreement", (LAYER, float("nan")), ValueError, "temperature must be above 0"),
        (
            "adam",
            (DENSE, WEIGHT, DENSE, DENSE, 1, 0.1, 0.0),
            ValueError,
            r"gradient must have 32 elements like parameter, got shape \(6, 8\)",
        ),
        (
            "adam",
            (DENSE, DENSE, DENSE, DENSE.astype(float), 1, 0.1, 0.0),
            TypeError,
            "square must be float32 like parameter",
        ),
        ("adam", (DENSE,) * 4 + ("a", 0.1, 0.0), TypeError, "step must be a number"),
    ],
)
def test_wrong_arguments(
    native: ModuleType, name: str, arguments: tuple[Any, ...], error: type, message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        getattr(native, name)(*arguments)
    assert "\n" not in str(caught.value)


SCALAR, NONE = np.array(1, np.float32), np.empty(0, np.int64)
FROZEN = np.ones(4, np.float32)
FROZEN.flags.writeable = False


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("hidden_product", (SCALAR, LAYER), "dense must have two dimensions"),
        ("hidden_product", (DENSE, SCALAR), "weight must have four dimensions"),
        ("hidden_product_backward", (SCALAR, SCALAR, SCALAR), "dense must have two dimensions"),
        ("wide_product", (SCALAR, LAYER), "dense must have two dimensions"),
        ("wide_product", (DENSE, SCALAR), "weight must have four dimensions"),
        ("column_sums", (SCALAR,), "rows must have two dimensions"),
        ("agreement", (SCALAR, 0.5), "logits must have four dimensions"),
        ("loss", (SCALAR, LABELS, SHARES), "logits must have three dimensions"),
        ("adam", (FROZEN, *[np.ones(4, np.float32)] * 3, 1, 0.1, 0.0), "parameter must be writ"),
        ("pack_rows", (ROWS, 6, 2**63 - 1), "Maximum allowed dimension"),
        ("pack_rows", (ROWS, 2**63 - 1, 1), "n_columns must be at most 2147483648"),
        ("walks", (SQUARE, None, NONE, 2**63 - 1, KEY), "n_steps must be at most 2147483648"),
    ],
)
def test_what_once_ended_the_process(
    native: ModuleType, name: str, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises((ValueError, MemoryError), match=message):
        getattr(native, name)(*arguments)


def test_memory_below_nothing_is_nothing(native: ModuleType) -> None:
    from graphconv import _native

    _native.trim_memory(-1)
    assert native.propagate(ROWS, WEIGHT).shape == (4, 8)


def test_a_daemon_thread_in_a_kernel_does_not_abort_the_exit(native: ModuleType) -> None:
    """The interpreter ends the thread when it comes back from the kernel, while it is going."""
    program = """
import threading
import numpy as np
from graphconv.kernels import native
logits = np.ones((200_000, 1, 40), np.float32)
labels, weight = np.zeros(200_000, np.int64), np.ones(200_000)
started = threading.Event()
def work():
    while True:
        started.set()
        native.loss(logits, labels, weight)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
started.wait()
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
