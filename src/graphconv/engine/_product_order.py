"""Product order: whether a product or the sum over neighbours that follows it is made first.

S (X W) is (S X) W. The first sums what leaves the product, the second what enters it, which may be
narrower, and then needs the product on fewer rows. Whichever is less work.
"""

from __future__ import annotations

from typing import NamedTuple

# What a multiply-add of a sum over neighbours takes, in multiply-adds of a product, and what it
# takes to make a number of what is summed apart from the product, by dropout or activation:
# measured on graphs of 20,000 to 170,000 nodes with 16 to 384 columns.
_SUM_COST = 16
_COPY_COST = 256


class ProductAndSum(NamedTuple):
    """The sizes of a product and of the sum over neighbours that follows it."""

    n_in: int  # columns that enter the product
    n_out: int  # columns that leave it
    n_read: int  # rows that the sum reads
    n_rows: int  # rows that it makes
    n_entries: int  # neighbours that it goes over
    trained: bool  # whether gradients are made, too
    for_input: bool  # and those of what enters
    copied: bool  # whether what enters is to be made apart, where it is summed first
    dropped: bool  # or is dropped out while it is summed


def sum_comes_first(size: ProductAndSum) -> bool:
    """Whether it is less work to sum what enters the product.

    Examples
    --------
    >>> from graphconv.engine._product_order import ProductAndSum, sum_comes_first
    >>> few_rows = ProductAndSum(384, 64, 18_000, 2_200, 30_000, True, False, False, True)
    >>> sum_comes_first(few_rows), sum_comes_first(few_rows._replace(n_rows=18_000))
    (True, False)
    """
    n_products = 1 + size.trained + (size.trained and size.for_input)
    per_row = size.n_in * size.n_out * n_products
    per_column = _SUM_COST * size.n_entries
    product_first = size.n_read * per_row + per_column * size.n_out * (1 + size.trained)
    sum_first = size.n_rows * per_row + per_column * size.n_in * (
        1 + (size.trained and size.for_input) + size.dropped  # hashes take as long as the sum
    )
    if size.copied:
        sum_first += _COPY_COST * size.n_read * size.n_in
    return sum_first < product_first
