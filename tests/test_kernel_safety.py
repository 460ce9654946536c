"""No entry of the compiled module reads or writes beyond an array, whatever Python gives it.

Every entry is called with good arguments, then with each of them made wrong in every way that
applies. A wrong index that is not refused ends the process here, or under `make sanitize`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.training_runs import SHORT, run, small_graph

from graphconv import Graph
from graphconv.kernels import Csr, Dropout, fixed

BIG = 10**9
DROPPED = Dropout((1, 2), 1 << 15)


def floats(*shape: int) -> np.ndarray:
    return np.linspace(0.1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def csr(n_rows: int, n_columns: int, index: Any) -> Csr:
    """Rows of two entries each."""
    ends = np.arange(0, 2 * n_rows + 1, 2, dtype=index)
    columns = np.tile(np.array([0, n_columns - 1], dtype=index), n_rows)
    return Csr(ends[:-1].copy(), ends[1:].copy(), columns, floats(2 * n_rows))


def good_calls(index: Any) -> dict[str, tuple[Any, ...]]:
    """Good arguments of every entry; their order is that of the compiled module."""
    wide, square = csr(4, 6, index), csr(4, 4, index)
    weight, layer = floats(6, 8), floats(4, 1, 2, 3)
    ids, labels = np.arange(4), np.array([0, 1, 2, 3])
    bounds = np.array([0, 2]), np.array([2, 4])
    return {
        "propagate": (
            *(square, floats(4, 8), floats(4), floats(4), 1.0, floats(8), floats(8), floats(4, 8)),
        ),
        "propagate_beside": (square, floats(4, 8), floats(4), floats(4), floats(8), floats(4)),
        "propagate_beside_backward": (square, floats(4, 8), floats(4), floats(4), floats(8)),
        "propagate_dropped": (square, floats(4, 8), DROPPED, ids, floats(4), floats(4), 1.0),
        "propagate_sparse": (
            *(square, wide, 6, floats(4), floats(4), 1.0),
            *(np.empty(5, index), np.empty(24, index), floats(24)),
        ),
        "feature_product": (wide, weight, DROPPED, ids),
        "feature_product_transposed": (wide, floats(4, 8), 6, DROPPED, ids),
        "pack_rows": (
            *(wide, 6, 2),
            *(np.empty(8, index), np.empty(8, index), np.empty(8, index), floats(8)),
        ),
        "packed_product": (wide, 2, weight),
        "dropout_dense": (floats(4, 8), floats(4, 8), DROPPED, ids, True),
        "hidden_product": (floats(4, 8), layer, DROPPED, ids, True),
        "hidden_product_backward": (floats(4, 6), floats(4, 8), layer, DROPPED, ids, True),
        "wide_product": (floats(4, 8), layer, DROPPED, ids, True, floats(6)),
        "wide_product_backward": (floats(4, 6), floats(4, 8), layer, DROPPED, ids, True, True),
        "walks": (square, np.arange(9.0), labels, 3, 5),
        "normalise_rows": (floats(4, 8), floats(2, 4), floats(2, 4), 1e-5, True, floats(4, 8)),
        "normalise_rows_backward": (
            *(floats(4, 8), floats(4, 8), floats(2, 4), floats(2, 4), 1e-5, True),
        ),
        "normalise_columns": (
            *(floats(4, 8), floats(2, 4), floats(2, 4), 1e-5, True, floats(2, 4), floats(2, 4)),
        ),
        "normalise_columns_backward": (
            *(floats(4, 8), floats(4, 8), floats(2, 4), floats(2, 4), 1e-5, True),
            *(floats(2, 4), floats(2, 4)),
        ),
        "column_sums": (floats(4, 8),),
        "agreement": (floats(4, 2, 2, 3), 0.5, True),
        "loss": (floats(4, 2, 4), labels, np.full(4, 0.25), True),
        "adam": (floats(4, 8), floats(4, 8), floats(4, 8), floats(4, 8), 1, 0.1, 0.0),
        "sample_rows": (
            *(*bounds, np.array([0, 1]), np.arange(2), np.arange(4, dtype=index), floats(4), 1, 7),
            *(np.empty(2, index), floats(2)),
        ),
        "trim_memory": (1 << 20,),
        "set_threads": (2,),
        "get_threads": (),
        "variant": (),
    }


# What is another good argument, not a wrong one.
GOOD_TOO = {
    ("feature_product", 1, "longer"),  # features that no node has
    ("packed_product", 2, "longer"),
    ("propagate_dropped", 2, "keys that do not divide the width"),  # all see the same columns
    ("walks", 0, "values: wrong dtype"),  # walks go by the running sums, not by the values
    ("walks", 0, "values: other byte order"),
    ("walks", 2, "shorter"),  # fewer walks
    ("walks", 2, "longer"),
    *((name, 0, what) for name in ("column_sums", "agreement") for what in ("shorter", "longer")),
    # Whose elements are counted, whatever the shape.
    *(("adam", place, "one dimension more") for place in range(4)),
    ("propagate", 6, "one dimension more"),
    ("propagate_beside", 5, "one dimension more"),
    ("normalise_rows", 2, "one dimension more"),
    ("normalise_rows", 5, "one dimension more"),
    ("normalise_rows_backward", 0, "one dimension more"),
    ("normalise_rows_backward", 3, "one dimension more"),
    ("normalise_columns", 0, "shorter"),
    ("normalise_columns", 0, "longer"),
    *(("normalise_columns", place, "one dimension more") for place in (1, 2, 5, 6)),
    *(("normalise_columns_backward", place, "one dimension more") for place in (0, 2, 3, 6, 7)),
    # Of a node's own only those rows count that are there.
    ("propagate", 7, "shorter"),
    ("propagate", 7, "longer"),
    ("hidden_product_backward", 0, "one dimension more"),
    ("wide_product", 5, "one dimension more"),
    ("wide_product_backward", 0, "one dimension more"),
    ("sample_rows", 4, "one dimension more"),
    ("sample_rows", 8, "one dimension more"),
}
WRITTEN = {
    *(("adam", place) for place in (0, 2, 3)),
    *(("propagate_sparse", place) for place in (6, 7, 8)),
    *(("pack_rows", place) for place in (3, 4, 5, 6)),
    *(("sample_rows", place) for place in (8, 9)),
}
INDICES = {("walks", 2): 4, ("loss", 1): 4}  # numbers in 0 .. 4
BOUNDS = {("sample_rows", 0), ("sample_rows", 1), ("sample_rows", 2)}


def changed(array: np.ndarray, place: Any, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


def wrong_arrays(name: str, place: int, array: np.ndarray) -> Iterator[tuple[str, Any]]:
    yield "no array", "a"
    yield "wrong dtype", array.astype(np.float16 if array.dtype.kind == "f" else np.int8)
    yield "other byte order", array.astype(array.dtype.newbyteorder(">"))
    yield "not contiguous", np.repeat(array, 2, axis=-1)[..., ::2]
    yield "scalar", np.array(1, dtype=array.dtype)
    yield "one dimension more", array[None]
    yield "shorter", array[:-1].copy()
    yield "longer", np.concatenate([array, array[:1]])
    if (name, place) in WRITTEN:
        fixed_array = array.copy()
        fixed_array.flags.writeable = False
        yield "read-only", fixed_array
    if (name, place) in INDICES:
        for value in (-1, INDICES[name, place], BIG, -(2**63), 2**63 - 1):
            yield f"index {value}", changed(array, 1, value)
    if (name, place) in BOUNDS:
        for value in (-1, BIG, -(2**63), 2**63 - 1):
            yield f"bound {value}", changed(array, -1, value)


def wrong_rows(rows: Csr) -> Iterator[tuple[str, Any]]:
    yield "no rows", None
    yield "three arrays", tuple(rows[:3])
    most = np.iinfo(rows.begin.dtype).max
    for value in (-1, int(rows.indices.max()) + 1, BIG, most, -most - 1):
        yield f"column {value}", rows._replace(indices=changed(rows.indices, 1, value))
    for value in (-1, 9, most, -most - 1):
        yield f"begins at {value}", rows._replace(begin=changed(rows.begin, 2, value))
        yield f"ends at {value}", rows._replace(end=changed(rows.end, 2, value))
    yield "ends before it begins", rows._replace(begin=rows.end, end=rows.begin)
    for field in ("begin", "end", "indices", "values"):
        for what, array in wrong_arrays("", 0, getattr(rows, field)):
            yield f"{field}: {what}", rows._replace(**{field: array})


def wrong_calls(index: Any) -> Iterator[Any]:
    for name, arguments in good_calls(index).items():
        for place, argument in enumerate(arguments):
            if isinstance(argument, Csr):
                wrong = wrong_rows(argument)
            elif isinstance(argument, np.ndarray):
                wrong = wrong_arrays(name, place, argument)
            elif isinstance(argument, Dropout):
                wrong = iter(
                    [
                        ("no dropout", 0.5),
                        ("no keys", Dropout((), 5)),
                        ("threshold", Dropout((1, 2), 1 << 20)),
                        ("negative key", Dropout((1, -2), 5)),
                        ("keys that do not divide the width", Dropout((1, 2, 3), 5)),
                    ]
                )
            elif isinstance(argument, bool):
                continue  # anything is true or false
            else:
                wrong = iter([("no number", "a")])
                if isinstance(argument, int) and name not in ("adam", "trim_memory"):
                    wrong = iter([("no number", "a"), ("negative", -1), ("too great", 2**70)])
            for what, value in wrong:
                if (name, place, what) in GOOD_TOO:
                    continue
                given = (*arguments[:place], value, *arguments[place + 1 :])
                yield pytest.param(name, given, id=f"{name}-{place}-{what}-{index.__name__}")
        yield pytest.param(name, (*arguments, None), id=f"{name}-one more-{index.__name__}")


def test_every_entry_of_the_module_is_tried(native: ModuleType) -> None:
    from graphconv import _native

    entries = {name for name in dir(_native) if not name.startswith("_")}
    assert entries == set(good_calls(np.int32))


def test_good_arguments_are_taken_with_indices_of_either_width(native: ModuleType) -> None:
    from graphconv import _native

    before = native.get_threads()
    wide = good_calls(np.int64)
    for name, arguments in good_calls(np.int32).items():
        answers = [getattr(_native, name)(*given) for given in (arguments, wide[name])]
        np.testing.assert_equal(answers[0], answers[1], err_msg=name)
    native.set_threads(before)


@pytest.mark.parametrize(("name", "arguments"), [*wrong_calls(np.int32), *wrong_calls(np.int64)])
def test_wrong_arguments_are_refused(
    native: ModuleType, name: str, arguments: tuple[Any, ...]
) -> None:
    from graphconv import _native

    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(_native, name)(*arguments)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("name", "written", "read"),
    [("pack_rows", 5, "indices"), ("propagate_sparse", 7, "indices"), ("sample_rows", 8, 4)],
)
def test_results_do_not_lie_over_what_is_read(
    native: ModuleType, name: str, written: int, read: Any
) -> None:
    from graphconv import _native

    arguments = [*good_calls(np.int32)[name]]
    size = len(arguments[written])
    if isinstance(read, str):
        memory = np.resize(getattr(arguments[0], read), size)
        arguments[0] = arguments[0]._replace(**{read: memory[: len(arguments[0].values)]})
    else:
        memory = arguments[read]
    arguments[written] = memory[:size]
    with pytest.raises(ValueError, match="must not share memory with"):
        getattr(_native, name)(*arguments)


def test_what_is_remembered_of_fixed_rows(native: ModuleType) -> None:
    rows, dense = fixed(csr(4, 6, np.int32)), floats(6, 8)
    want = native.propagate(rows, dense)
    assert np.array_equal(native.propagate(rows, dense), want)
    # Known are the columns, not that they were few enough: a smaller matrix is refused.
    with pytest.raises(ValueError, match=r"rows.indices must be in 0 .. 5, the columns, got 5"):
        native.propagate(rows, dense[:5])
    # Others at the same place in memory are not taken for them.
    for _ in range(50):
        good = fixed(csr(4, 6, np.int32))
        native.propagate(good, dense)
        del good
        wrong = csr(4, 6, np.int32)
        wrong.indices[3] = 6
        with pytest.raises(ValueError, match="got 6"):
            native.propagate(fixed(wrong), dense)


def test_rows_that_can_be_written_to_are_looked_at_every_time(native: ModuleType) -> None:
    rows, dense = csr(4, 6, np.int32), floats(6, 8)
    hidden = rows.indices
    shown = hidden.view()
    shown.flags.writeable = False  # but `hidden` is not
    seen = Csr(fixed(rows._replace(indices=hidden.copy())).begin, rows.end, shown, rows.values)
    native.propagate(seen, dense)
    hidden[0] = BIG
    with pytest.raises(ValueError, match="got 1000000000"):
        native.propagate(seen, dense)


@pytest.mark.parametrize("way", ["flag set again", "memoryview", "bytearray"])
def test_what_is_only_declared_read_only_is_looked_at_every_time(
    native: ModuleType, way: str
) -> None:
    rows, dense = fixed(csr(4, 6, np.int32)), floats(6, 8)
    written = rows.indices.copy()
    if way == "flag set again":
        shown = written
        shown.flags.writeable = False
    else:
        if way == "bytearray":
            written = np.frombuffer(bytearray(written.tobytes()), dtype=np.int32)
        shown = np.asarray(written.data.toreadonly())  # who has `written` can still write
    seen = rows._replace(indices=shown)
    native.propagate(seen, dense)
    written.flags.writeable = True
    written[0] = BIG
    shown.flags.writeable = False
    with pytest.raises(ValueError, match="got 1000000000"):
        native.propagate(seen, dense)


@pytest.mark.parametrize("features", ["sparse", "dense", "none"])
def test_a_graphs_matrices_cannot_be_written_to(features: str) -> None:
    graph = small_graph(features)
    matrices = [graph.adjacency] if graph.features is None else [graph.adjacency, graph.features]
    for matrix in matrices:
        parts = [matrix.data, matrix.indices, matrix.indptr] if sp.issparse(matrix) else [matrix]
        for array in parts:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                array.flags.writeable = True


@pytest.mark.parametrize("kind", ["adjacency", "sparse features", "dense features"])
def test_what_a_graph_was_made_of_stays_the_callers(kind: str) -> None:
    given: Any = sp.csr_array(np.array([[0, 1], [1, 0]], dtype=np.float32))
    if kind == "adjacency":
        kept: Any = Graph(given).adjacency
    else:
        given = given.toarray() if kind == "dense features" else given
        kept = Graph([[0, 1], [1, 0]], features=given).features
    given *= 2
    assert given.sum() == 4
    assert kept.sum() == 2


@pytest.mark.parametrize("features", ["sparse", "none"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_training_gives_fixed_rows_only(
    native: ModuleType, monkeypatch: pytest.MonkeyPatch, features: str, directed: bool
) -> None:
    """So that indices are looked at once for a batch, not in every epoch."""
    given: list[Csr] = []
    for name in ("propagate", "feature_product", "feature_product_transposed"):
        kernel = getattr(native, name)

        def watched(rows: Csr, *rest: Any, kernel: Any = kernel, **named: Any) -> Any:
            given.append(rows)
            return kernel(rows, *rest, **named)

        monkeypatch.setattr(native, name, watched)
    run(small_graph(features, directed=directed), SHORT, kernel="native")
    assert len(given) >= 4 * SHORT.max_epochs
    # Also those of predictions for all nodes, which read the graph's own arrays.
    assert all(is_sealed(array) for rows in given for array in rows[:3])


def is_sealed(array: Any) -> bool:
    """Whether numpy would not let anybody write to it, even if asked."""
    try:
        array.flags.writeable = True
    except ValueError:
        return True
    return False
