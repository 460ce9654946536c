"""Names that users write, of feature scalings and parts of a split; imports nothing heavy."""

from typing import Literal, get_args

Scaling = Literal["auto", "row", "l2", "standard", "none"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
SplitName = Literal["train", "validation", "test"]
SPLIT_NAMES: tuple[SplitName, ...] = get_args(SplitName)
