"""Table encoding: how the columns of a node table become a feature matrix.

A data frame enters, a feature matrix leaves: numbers as they are, categories as one-hot blocks,
text as TF-IDF. The encoding is fitted once, saved as JSON with the model, and encodes new nodes
just as it did the first ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features
from graphconv.io.derived_columns import DerivedColumn, with_derived
from graphconv.io.number_columns import (
    EMPTY,
    UNDECLARED,
    MissingValue,
    filled,
    finite_numbers,
    fit_fill,
    is_sparse_and_finite,
    number_matrix,
)
from graphconv.io.table_files import as_text
from graphconv.io.wording import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

At = Callable[[int], str]

# Rarer words are left out: the first layer has one row of weights for each word.
MAX_WORDS = 20_000

_WORD = re.compile(r"\b\w\w+\b")


@dataclass(frozen=True, repr=False)
class CategoricalColumn:
    """A column that becomes one-hot: its name and its categories, in order."""

    name: str
    categories: tuple[str, ...]

    def __repr__(self) -> str:
        return f"CategoricalColumn({self.name!r}, {len(self.categories):,} categories)"


@dataclass(frozen=True, repr=False)
class TextColumn:
    """A column that becomes TF-IDF: its name, its words in order, and their weights."""

    name: str
    vocabulary: tuple[str, ...]
    idf: tuple[float, ...]

    def __repr__(self) -> str:
        return f"TextColumn({self.name!r}, {len(self.vocabulary):,} words)"


@dataclass(frozen=True, repr=False)
class TableEncoding:
    """How the columns of a node table become features, one block of them a column.

    Parameters
    ----------
    numeric : tuple of str
        Columns of finite numbers, one feature each.
    fill : tuple of float
        What stands for an unknown number, one for each of `numeric`: what scaling brings to the
        middle, so that nothing sets the node apart. Empty in models of earlier versions: 0.
    missing_value : {"refuse", "mean", "zero"}
        What is done with an empty cell of `numeric`. A node that has no row at all has unknown
        numbers whatever this is.
    categorical : tuple of CategoricalColumn
        A missing value, or one that was not there at `fit`, leaves its block zero.
    text : tuple of TextColumn
    derived : tuple of DerivedColumn
        Columns of dates, embeddings and the like, with the columns of `numeric` they become.
    relations : tuple of str
        Relations of a knowledge graph. They are no columns of the table: their one-hot features
        belong to the nodes that `readers.from_frames` makes of them.
    edge_columns : tuple of str
        Columns of the edge table that edges, made nodes, carry: see `edge_nodes`. How they become
        features is in `types`.
    label_edges : tuple of float
        Where the labels are a number cut into bins: what parts them.
    types : tuple of (str, TableEncoding)
        Where nodes are of several types: how the table of each is encoded, the labelled type's
        first. There are no other columns then.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.table_encoding import TableEncoding
    >>> people = pd.DataFrame({"age": [31, 47], "town": ["Oslo", "Rome"]})
    >>> encoding = TableEncoding.fit(
    ...     people, numeric=["age"], categorical=["town"], text=[], where="people.csv"
    ... )
    >>> features, names = encoding.transform(people, "people.csv")
    >>> features.toarray()
    array([[31.,  1.,  0.],
           [47.,  0.,  1.]], dtype=float32)
    >>> names
    ('age', 'town=Oslo', 'town=Rome')
    >>> TableEncoding.from_json(encoding.to_json()) == encoding
    True
    """

    numeric: tuple[str, ...] = ()
    categorical: tuple[CategoricalColumn, ...] = ()
    text: tuple[TextColumn, ...] = ()
    relations: tuple[str, ...] = ()
    fill: tuple[float, ...] = ()
    missing_value: MissingValue = "refuse"
    label_edges: tuple[float, ...] = ()
    derived: tuple[DerivedColumn, ...] = ()
    types: tuple[tuple[str, TableEncoding], ...] = ()
    edge_columns: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        derived: Sequence[DerivedColumn] = (),
        missing_value: MissingValue = "refuse",
        where: str = "nodes",
        at: At | None = None,
    ) -> TableEncoding:
        """Learn the categories, the words and, perhaps, the means of a table.

        Parameters
        ----------
        frame : DataFrame
        numeric, categorical, text : sequences of column names
        derived : sequence of DerivedColumn
            Columns that become numbers, which come after those of `numeric`.
        missing_value : {"refuse", "mean", "zero"}
            What stands for an empty cell of a numeric column.
        where : str
            The name of the table in errors.
        at : callable, optional
            Turns a row position into its place in errors. Default: the line of a CSV file
            whose first line is the header.
        """
        at = at or _line_in(where)
        for name in (*numeric, *categorical, *text, *(column.name for column in derived)):
            _check_column(frame, name, where, "")
        frame = with_derived(frame, derived, at)
        numeric = (*numeric, *(name for column in derived for name in column.numbers))
        columns = [frame[name] for name in numeric]
        fill = tuple(fit_fill(column, missing_value, at, where) for column in columns)
        for column, number in zip(columns, fill, strict=True):
            if is_sparse_and_finite(column):
                continue
            whole = column if missing_value == "refuse" else filled(column, number)
            finite_numbers(whole, at, advice=UNDECLARED, advice_if_empty=EMPTY)
        return cls(
            numeric=tuple(numeric),
            fill=fill,
            missing_value=missing_value,
            categorical=tuple(_fit_categorical(frame[name], where) for name in categorical),
            text=tuple(fit_text([frame[name]], name, where) for name in text),
            derived=tuple(derived),
        )

    def __repr__(self) -> str:
        columns = [
            *(repr(name) for name in self.numeric[:8]),
            *(["..."] if len(self.numeric) > 8 else []),
            *map(repr, (*self.categorical, *self.text)),
            *(f"{name}: {encoding!r}" for name, encoding in self.types),
        ]
        return f"TableEncoding({', '.join(columns)})"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        made = {name for column in self.derived for name in column.numbers}
        given = (name for name in self.numeric if name not in made)
        return (
            *given,
            *(column.name for column in self.derived),
            *(column.name for column in self.categorical),
            *(column.name for column in self.text),
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each feature that `transform` makes."""
        return (
            *self.numeric,
            *(
                f"{column.name}={value}"
                for column in self.categorical
                for value in column.categories
            ),
            *(f"{column.name}:{word}" for column in self.text for word in column.vocabulary),
        )

    @property
    def features_of_columns(self) -> dict[str, list[int]]:
        """For each column of the table, the places of the features that are made of it.

        Examples
        --------
        >>> from graphconv.io.table_encoding import CategoricalColumn, TableEncoding
        >>> town = CategoricalColumn("town", ("Oslo", "Rome"))
        >>> TableEncoding(numeric=("age",), categorical=(town,)).features_of_columns
        {'age': [0], 'town': [1, 2]}
        """
        if self.types:
            return self._features_of_types()
        column_of = {name: c.name for c in self.derived for name in c.numbers}
        names = [
            *(column_of.get(name, name) for name in self.numeric),
            *(column.name for column in self.categorical for _ in column.categories),
            *(column.name for column in self.text for _ in column.vocabulary),
        ]
        found: dict[str, list[int]] = {}
        for place, name in enumerate(names):
            found.setdefault(name, []).append(place)
        return found

    def _features_of_types(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        first = 0
        for kind, encoding in self.types:
            for name, places in encoding.features_of_columns.items():
                found[f"{kind}.{name}"] = [first + place for place in places]
            first += len(encoding.feature_names)
        return found

    def transform(
        self, frame: pd.DataFrame, where: str = "nodes", *, at: At | None = None
    ) -> tuple[Features | None, tuple[str, ...]]:
        """Feature matrix of a table, and the names of its columns.

        Parameters
        ----------
        frame : DataFrame
            Columns that the encoding does not know are passed over.
        where, at
            As in `fit`.

        Returns
        -------
        features : array of shape (n_rows, n_features), or None
            Dense if all columns are numbers that are not mostly 0, else sparse. None if there is
            no column at all.
        feature_names : tuple of str
        """
        at = at or _line_in(where)
        for name in self.columns:
            _check_column(frame, name, where, ", which the model was trained with")
        if not self.columns:
            return None, ()
        frame = with_derived(frame, self.derived, at)
        fill = () if self.missing_value == "refuse" else self.fill
        numbers = number_matrix(frame, self.numeric, fill, at)
        if not self.categorical and not self.text:
            return numbers, self.feature_names
        blocks = [
            sp.csr_array(numbers),
            *(_one_hot(frame[column.name], column) for column in self.categorical),
            *(_tf_idf(frame[column.name], column) for column in self.text),
        ]
        matrix = sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        return (matrix.toarray() if _is_full(matrix) else matrix), self.feature_names

    def unknown_rows(self, n_rows: int) -> sp.csr_array:
        """Features of nodes that no table describes: unknown numbers, no category, no word.

        Examples
        --------
        >>> import pandas as pd
        >>> from graphconv.io.table_encoding import TableEncoding
        >>> encoding = TableEncoding.fit(pd.DataFrame({"age": [31, 47]}), numeric=["age"])
        >>> encoding.unknown_rows(2).toarray()
        array([[39.],
               [39.]], dtype=float32)
        """
        row = np.zeros((1, len(self.feature_names)), dtype=np.float32)
        row[0, : len(self.fill)] = self.fill
        ones = sp.csr_array(np.ones((n_rows, 1), dtype=np.float32))
        return sp.csr_array(ones @ sp.csr_array(row))

    @property
    def unknown_features(self) -> npt.NDArray[np.float32]:
        """What `Graph.unknown_features` is: a row of `unknown_rows`, of the labelled type."""
        own = self.types[0][1] if self.types else self
        row: npt.NDArray[np.float32] = own.unknown_rows(1).toarray()[0]
        return row

    def to_json(self) -> dict[str, Any]:
        """The encoding as dicts, lists, strings and numbers."""
        return {
            "numeric": list(self.numeric),
            "categorical": [
                {"name": column.name, "categories": list(column.categories)}
                for column in self.categorical
            ],
            "text": [
                {
                    "name": column.name,
                    "vocabulary": list(column.vocabulary),
                    "idf": list(column.idf),
                }
                for column in self.text
            ],
            "derived": [asdict(column) for column in self.derived],
            "relations": list(self.relations),
            "fill": list(self.fill),
            "missing_value": self.missing_value,
            "label_edges": list(self.label_edges),
            "types": [[name, encoding.to_json()] for name, encoding in self.types],
            "edge_columns": list(self.edge_columns),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> TableEncoding:
        """The encoding that `to_json` wrote."""
        try:
            encoding = cls(
                numeric=_strings(content["numeric"]),
                categorical=tuple(
                    CategoricalColumn(str(column["name"]), _strings(column["categories"]))
                    for column in content["categorical"]
                ),
                text=tuple(
                    TextColumn(
                        str(column["name"]),
                        _strings(column["vocabulary"]),
                        tuple(float(weight) for weight in column["idf"]),
                    )
                    for column in content["text"]
                ),
                derived=tuple(DerivedColumn.from_json(c) for c in content.get("derived", ())),
                relations=_strings(content["relations"]),
                fill=tuple(float(number) for number in content.get("fill", ())),
                # Earlier versions kept no numbers to fill with where cells had to be filled.
                missing_value=content.get(
                    "missing_value", "mean" if content.get("fill") else "refuse"
                ),
                label_edges=tuple(float(edge) for edge in content.get("label_edges", ())),
                types=tuple(
                    (str(name), cls.from_json(part)) for name, part in content.get("types", ())
                ),
                edge_columns=_strings(content.get("edge_columns", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not the encoding of a table: {error!r}") from None
        if encoding.fill and len(encoding.fill) != len(encoding.numeric):
            raise ValueError(
                f"fill must be one number per numeric column ({len(encoding.numeric)}), "
                f"got {len(encoding.fill)}"
            )
        for values in (
            *(column.categories for column in encoding.categorical),
            *(column.vocabulary for column in encoding.text),
        ):
            if len(set(values)) < len(values):
                raise ValueError("a column's categories or words must be distinct")
        for column in encoding.text:
            if len(column.idf) != len(column.vocabulary) or not np.isfinite(column.idf).all():
                raise ValueError(
                    f"text column {column.name!r} must have one finite weight per word, got "
                    f"{len(column.idf)} weights for {len(column.vocabulary)} words"
                )
        return encoding


def _is_full(matrix: sp.csr_array) -> bool:
    """Whether a wide block, such as an embedding, fills a matrix so that zeros are rare."""
    n_rows, n_columns = matrix.shape
    return bool(n_columns > 64 and matrix.nnz > 0.5 * n_rows * n_columns)


def _line_in(where: str) -> At:
    return lambda row: f"{where}, line {row + 2}"


def _strings(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _check_column(frame: pd.DataFrame, name: str, where: str, why: str) -> None:
    if name not in frame.columns:
        hint = did_you_mean(name, [str(column) for column in frame.columns])
        raise ValueError(f"{where} has no column {name!r}{why}{hint}")


def _fit_categorical(column: pd.Series[Any], where: str) -> CategoricalColumn:
    categories = sorted(set(as_text(column).tolist()) - {""})
    if not categories:
        raise ValueError(f"{where}: categorical column {str(column.name)!r} must not be empty")
    return CategoricalColumn(str(column.name), tuple(categories))


def _one_hot(column: pd.Series[Any], known: CategoricalColumn) -> sp.csr_array:
    import pandas as pd

    codes = pd.Index(known.categories).get_indexer(pd.Index(as_text(column)))
    rows = np.flatnonzero(codes >= 0)
    ones = np.ones(len(rows), dtype=np.float32)
    shape = (len(column), len(known.categories))
    return sp.coo_array((ones, (rows, codes[rows])), shape=shape).tocsr()


def fit_text(columns: Iterable[pd.Series[Any]], name: str, where: str) -> TextColumn:
    """The words of a column that comes in pieces, and their weights."""
    n_times, n_cells = Counter[str](), Counter[str]()
    n_rows = 0
    for column in columns:
        for cell in as_text(column).tolist():
            words = _words(cell)
            n_times.update(words)
            n_cells.update(set(words))
        n_rows += len(column)
    if not n_times:
        raise ValueError(f"{where}: text column {name!r} must hold words of two letters or more")
    commonest = sorted(n_times, key=lambda word: (-n_times[word], word))[:MAX_WORDS]
    vocabulary = tuple(sorted(commonest))
    # As if one more cell had all words.
    seen = np.array([n_cells[word] + 1 for word in vocabulary], dtype=np.float32)
    idf = np.log(np.float32(n_rows + 1) / seen) + 1
    return TextColumn(name, vocabulary, tuple(idf.tolist()))


def _words(cell: str) -> list[str]:
    return _WORD.findall(cell.lower())


# As scikit-learn's TfidfVectorizer, bit for bit, but that one takes as long to import as a small
# table takes to be trained on.
def _tf_idf(column: pd.Series[Any], known: TextColumn) -> sp.csr_array:
    """How often each cell has each known word, times the word's weight; rows of length 1."""
    place = {word: position for position, word in enumerate(known.vocabulary)}
    places: list[int] = []
    ends = [0]
    for cell in as_text(column).tolist():
        places.extend(place[word] for word in _words(cell) if word in place)
        ends.append(len(places))
    matrix = sp.csr_array(
        (np.ones(len(places), dtype=np.float32), places, ends),
        shape=(len(column), len(known.vocabulary)),
    )
    matrix.sum_duplicates()
    matrix.data *= np.array(known.idf)[matrix.indices]
    row = np.repeat(np.arange(len(column)), np.diff(matrix.indptr))
    matrix.data /= np.sqrt(np.bincount(row, weights=matrix.data**2))[row]
    return matrix
