"""Names that users write, of feature scalings, parts of a split, devices; imports nothing heavy."""

from typing import Literal, get_args

Scaling = Literal["auto", "row", "l2", "standard", "none"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
SPLIT_NAMES = ("train", "validation", "test")
# Where to compute; "auto" is one of the others.
DEVICES = ("cpu", "cuda", "mps", "auto")
# Measures that methods are chosen and judged by, see `graphconv.training.measures`.
METRICS = (
    "accuracy",
    "balanced-accuracy",
    "macro-f1",
    "micro-f1",
    "roc-auc",
    "average-precision",
)
