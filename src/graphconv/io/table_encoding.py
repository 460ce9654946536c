"""Table encoding: how the columns of a node table become a feature matrix.

A data frame enters, a feature matrix leaves: numbers as they are, categories as one-hot blocks,
text as TF-IDF. The encoding is fitted once, saved as JSON with the model, and encodes new nodes
just as it did the first ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from graphconv.graph import Features
from graphconv.io.table_files import as_text
from graphconv.io.wording import MISSING_MARKS, did_you_mean, is_missing, shown

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.feature_extraction.text import TfidfVectorizer

At = Callable[[int], str]
MissingValue = Literal["refuse", "mean", "zero"]

# Rarer words are left out: the first layer has one row of weights for each word.
MAX_WORDS = 20_000


@dataclass(frozen=True)
class CategoricalColumn:
    """A column that becomes one-hot: its name and its categories, in order."""

    name: str
    categories: tuple[str, ...]


@dataclass(frozen=True)
class TextColumn:
    """A column that becomes TF-IDF: its name, its words in order, and their weights."""

    name: str
    vocabulary: tuple[str, ...]
    idf: tuple[float, ...]

    def vectorizer(self) -> TfidfVectorizer:
        """Scikit-learn's vectoriser, equal to the one that was fitted."""
        words = {word: position for position, word in enumerate(self.vocabulary)}
        vectorizer = _new_vectorizer(vocabulary=words)
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer


@dataclass(frozen=True)
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
    relations : tuple of str
        Relations of a knowledge graph. They are no columns of the table: their one-hot features
        belong to the nodes that `readers.from_frames` makes of them.
    label_edges : tuple of float
        Where the labels are a number cut into bins: what parts them.

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

    @classmethod
    def fit(
        cls,
        frame: pd.DataFrame,
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        text: Sequence[str] = (),
        missing_value: MissingValue = "refuse",
        where: str = "nodes",
        at: At | None = None,
    ) -> TableEncoding:
        """Learn the categories, the words and, perhaps, the means of a table.

        Parameters
        ----------
        frame : DataFrame
        numeric, categorical, text : sequences of column names
        missing_value : {"refuse", "mean", "zero"}
            What stands for an empty cell of a numeric column.
        where : str
            The name of the table in errors.
        at : callable, optional
            Turns a row position into its place in errors. Default: the line of a CSV file
            whose first line is the header.
        """
        at = at or _line_in(where)
        for name in (*numeric, *categorical, *text):
            _check_column(frame, name, where, "")
        fill = tuple(_fit_fill(frame[name], missing_value, at, where) for name in numeric)
        for name, number in zip(numeric, fill, strict=True):
            column = frame[name] if missing_value == "refuse" else _filled(frame[name], number)
            finite_numbers(column, at, advice=_UNDECLARED, advice_if_empty=_EMPTY)
        return cls(
            numeric=tuple(numeric),
            fill=fill,
            missing_value=missing_value,
            categorical=tuple(_fit_categorical(frame[name], where) for name in categorical),
            text=tuple(_fit_text(frame[name], where) for name in text),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return (*self.numeric, *(c.name for c in self.categorical), *(t.name for t in self.text))

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
            Dense if all columns are numeric, else sparse. None if there is no column at all.
        feature_names : tuple of str
        """
        at = at or _line_in(where)
        for name in self.columns:
            _check_column(frame, name, where, ", which the model was trained with")
        if not self.columns:
            return None, ()
        numbers = np.empty((len(frame), len(self.numeric)), dtype=np.float32)
        for position, name in enumerate(self.numeric):
            column = frame[name]
            if self.missing_value != "refuse":
                column = _filled(column, self.fill[position])
            numbers[:, position] = finite_numbers(column, at, advice_if_empty=_EMPTY)
        if not self.categorical and not self.text:
            return numbers, self.feature_names
        blocks = [
            sp.csr_array(numbers),
            *(_one_hot(frame[column.name], column) for column in self.categorical),
            *(_tf_idf(frame[column.name], column) for column in self.text),
        ]
        return sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32)), self.feature_names

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
            "relations": list(self.relations),
            "fill": list(self.fill),
            "missing_value": self.missing_value,
            "label_edges": list(self.label_edges),
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
                relations=_strings(content["relations"]),
                fill=tuple(float(number) for number in content.get("fill", ())),
                # Earlier versions kept no numbers to fill with where cells had to be filled.
                missing_value=content.get(
                    "missing_value", "mean" if content.get("fill") else "refuse"
                ),
                label_edges=tuple(float(edge) for edge in content.get("label_edges", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not the encoding of a table: {error!r}") from None
        if encoding.fill and len(encoding.fill) != len(encoding.numeric):
            raise ValueError(
                f"fill must be one number a numeric column ({len(encoding.numeric)}), "
                f"got {len(encoding.fill)}"
            )
        for column in encoding.text:
            if len(column.idf) != len(column.vocabulary) or not np.isfinite(column.idf).all():
                raise ValueError(
                    f"text column {column.name!r} must have one finite weight a word, got "
                    f"{len(column.idf)} weights for {len(column.vocabulary)} words"
                )
        return encoding


_EMPTY = ": train with --missing-value mean, or zero, to fill empty cells"
_UNDECLARED = ": declare it with --text or --categorical, or drop it with --ignore"


def finite_numbers(
    column: pd.Series[Any], at: At, *, advice: str = "", advice_if_empty: str = ""
) -> npt.NDArray[np.float64]:
    """The cells of a column as finite numbers, or a ValueError that names the first that is not.

    `advice` ends the message where not one cell is a number, `advice_if_empty` where the cell is
    empty.

    Examples
    --------
    >>> import pandas as pd
    >>> from graphconv.io.table_encoding import finite_numbers
    >>> finite_numbers(pd.Series([1, 2], name="age"), "row {}".format)
    array([1., 2.])
    """
    numbers = _as_numbers(column)
    with np.errstate(over="ignore"):
        wrong = ~np.isfinite(numbers.astype(np.float32))
    if not wrong.any():
        return numbers
    row = int(np.flatnonzero(wrong)[0])
    words = [position for position, cell in enumerate(column.tolist()) if _is_word(cell)]
    if np.isnan(numbers).all() and words:
        # No number at all: the column is not dirty, it is of another kind.
        row = words[0]
    else:
        advice = "" if _is_word(column.iloc[row]) else advice_if_empty
    must = "fit float32" if np.isfinite(numbers[row]) else "be a finite number"
    raise ValueError(
        f"{at(row)}: column {str(column.name)!r} must {must}, got {shown(column.iloc[row])}{advice}"
    )


def _fit_fill(column: pd.Series[Any], missing_value: MissingValue, at: At, where: str) -> float:
    """What stands for an unknown number of a column."""
    numbers = _as_numbers(column)
    known = numbers[np.isfinite(numbers)]
    if not len(known) and n_empty_cells(column) < len(column):
        finite_numbers(column, at, advice=_UNDECLARED)  # words only: it is refused here
    if not len(known) and missing_value == "mean":
        raise ValueError(
            f"{where}: column {str(column.name)!r} must hold a number to take the mean of, got none"
        )
    if not len(known):
        return 0.0
    return neutral_number(float(known.mean()), float((known == 0).mean()), missing_value)


def neutral_number(mean: float, share_of_zeros: float, missing_value: MissingValue) -> float:
    """The number that says least about a node, given what a column holds.

    That is the mean, which scaling brings to 0; but 0 where most nodes have it, so that the
    features of a wide table stay sparse. Who asks for the mean, or for 0, gets that.
    """
    is_zero = missing_value == "zero" or (missing_value == "refuse" and share_of_zeros > 0.5)
    return 0.0 if is_zero else mean


def n_empty_cells(column: pd.Series[Any]) -> int:
    """How many cells of a column hold nothing."""
    return sum(not _is_word(cell) for cell in column.tolist())


def _filled(column: pd.Series[Any], number: float) -> pd.Series[Any]:
    is_empty = np.array([not _is_word(cell) for cell in column.tolist()], dtype=bool)
    return column.astype(object).mask(is_empty, number) if is_empty.any() else column


def _as_numbers(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """The cells of a column as numbers, NaN where a cell is none."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    # pandas would turn dates into nanoseconds.
    if column.dtype.kind in "mM":
        return np.full(len(column), np.nan)
    try:
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.dtype.kind in "biuf":
            return numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    # Lists, complex numbers and the like among the cells.
    return np.array([_as_number(cell) for cell in column.tolist()], dtype=np.float64)


def _as_number(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else np.nan


def _is_word(cell: object) -> bool:
    return not is_missing(cell) and str(cell).strip() not in MISSING_MARKS


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


def _new_vectorizer(**options: Any) -> TfidfVectorizer:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(dtype=np.float32, **options)


def _fit_text(column: pd.Series[Any], where: str) -> TextColumn:
    vectorizer = _new_vectorizer(max_features=MAX_WORDS)
    try:
        vectorizer.fit(as_text(column).tolist())
    except ValueError:
        raise ValueError(
            f"{where}: text column {str(column.name)!r} must hold words of two letters or more"
        ) from None
    words = vectorizer.get_feature_names_out()
    return TextColumn(str(column.name), _strings(words), tuple(vectorizer.idf_.tolist()))


def _tf_idf(column: pd.Series[Any], known: TextColumn) -> sp.csr_array:
    if not len(column):
        return sp.csr_array((0, len(known.vocabulary)), dtype=np.float32)
    return sp.csr_array(known.vectorizer().transform(as_text(column).tolist()))
