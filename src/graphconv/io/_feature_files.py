"""Feature files: a sparse matrix in a file of its own becomes columns of the node table.

.mtx (Matrix Market) and .npz (`scipy.sparse.save_npz`) have a row for each row of the node table,
in its order. Any table file with three columns lists entries: the id of a node, the name of a
feature, and its value; what is not listed is 0.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from graphconv.graph.checks import check_sparse
from graphconv.io._matrix_market import read_matrix_market
from graphconv.io.array_files import check_unpacked_size
from graphconv.io.compression import plain_suffix
from graphconv.io.delimited import check_distinct, open_text, unreadable_as_value_error
from graphconv.io.number_columns import finite_numbers
from graphconv.io.table_columns import TableOptions
from graphconv.io.table_files import Table, as_text, existing_file
from graphconv.io.table_sources import Source, read_source
from graphconv.io.wording import count, one_line, shown

if TYPE_CHECKING:
    import pandas as pd

# Columns beyond the number of entries are empty, but each takes memory: a file may not claim more.
_MOST_COLUMNS = 1 << 20
# A file, or a sparse matrix with a row for each row of the node table.
FeatureSource: TypeAlias = "Source | sp.sparray | sp.spmatrix"


def with_features(nodes: Table, features: FeatureSource, options: TableOptions) -> Table:
    """The table of nodes with a column for each feature, mostly zero ones sparse.

    Examples
    --------
    >>> import pandas as pd
    >>> import scipy.sparse as sp
    >>> from graphconv.io._feature_files import with_features
    >>> from graphconv.io.table_columns import TableOptions
    >>> from graphconv.io.table_files import table_of_frame
    >>> nodes = table_of_frame(pd.DataFrame({"id": ["a", "b"]}), "nodes")
    >>> frame = with_features(nodes, sp.csr_array([[0, 2.0], [0, 0]]), TableOptions()).frame
    >>> list(frame.columns)
    ['id', 'feature_0', 'feature_1']
    >>> frame["feature_1"].sparse.to_dense().tolist()
    [2.0, 0.0]
    """
    import pandas as pd

    if sp.issparse(features) or plain_suffix(Path(str(features))) in (".mtx", ".npz"):
        name = "features" if sp.issparse(features) else Path(str(features)).name
        matrix = _matrix(features, name)
        if matrix.shape[0] != len(nodes.frame):
            raise ValueError(
                f"{name} must have a row for each row of {nodes.name} ({len(nodes.frame):,}), "
                f"got {matrix.shape[0]:,}"
            )
        names = [f"feature_{place}" for place in range(matrix.shape[1])]
    else:
        matrix, names = _entries(nodes, features, options)
    accessor: Any = pd.DataFrame.sparse  # its stubs know no from_spmatrix
    columns: pd.DataFrame = accessor.from_spmatrix(sp.csc_array(matrix), columns=pd.Index(names))
    check_distinct(nodes.name, [*map(str, nodes.frame.columns), *names])
    return replace(nodes, frame=pd.concat([nodes.frame.reset_index(drop=True), columns], axis=1))


def _matrix(features: Any, name: str) -> sp.csr_array:
    if not sp.issparse(features):
        path = existing_file(features)
        if plain_suffix(path) == ".mtx":
            with unreadable_as_value_error(name), open_text(path) as handle:
                try:
                    features = read_matrix_market(handle)
                except ValueError as error:
                    raise ValueError(
                        f"{name} must be a Matrix Market file: {one_line(error)}"
                    ) from None
        else:
            try:
                with path.open("rb") as file:
                    check_unpacked_size(file)
                    features = sp.load_npz(file)
            except MemoryError:
                raise
            except Exception as error:  # it raises what it likes on a broken file
                raise ValueError(
                    f"{name} must be a matrix that scipy.sparse.save_npz wrote: {one_line(error)}"
                ) from None
    check_sparse(features, name)
    matrix = sp.csr_array(features).astype(np.float64)
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{name} must hold finite numbers only")
    most = max(_MOST_COLUMNS, matrix.nnz)
    if matrix.shape[1] > most:
        raise ValueError(
            f"{name} must have at most {most:,} columns for {count(matrix.nnz, 'number')}, "
            f"got {matrix.shape[1]:,}"
        )
    return matrix


def _entries(nodes: Table, features: Any, options: TableOptions) -> tuple[sp.coo_array, list[str]]:
    """A matrix from a table of ids, names of features and values."""
    import pandas as pd

    every = {options.id, "column_1", "column_2"}
    table = read_source(features, "features", every, options)
    columns = list(table.frame.columns)
    if len(columns) != 3:
        raise ValueError(
            f"{table.name} must have three columns, an id, the name of a feature and its value, "
            f"got {count(len(columns), 'column')}"
        )
    ids, names = as_text(table.frame[columns[0]]), as_text(table.frame[columns[1]])
    values = finite_numbers(table.frame[columns[2]], table.at)
    known = pd.Index(as_text(nodes.frame[options.id]))
    rows = known.get_indexer(pd.Index(ids))
    if (rows < 0).any():
        row = int(np.flatnonzero(rows < 0)[0])
        raise ValueError(f"{table.at(row)}: {shown(ids.iloc[row])} is no id of {nodes.name}")
    # A feature that a model knows and no new node has is 0 for all of them.
    expected = options.encoding.columns if options.encoding is not None else ()
    absent = {name for name in expected if name not in nodes.frame.columns}
    found = pd.Index(sorted(absent.union(names.tolist())))
    shape = (len(known), len(found))
    codes = found.get_indexer(pd.Index(names))
    return sp.coo_array((values, (rows, codes)), shape=shape), [str(name) for name in found]
