"""Agreement of copies: what nodes without a label add to the loss.

Logits of several copies of a model enter, which differ in what was dropped out; the gradient that
makes them agree leaves. With p_s the probabilities that copy s of S gives a node, and q their mean
after sharpening, which is taken as given,

    q_c ~ (1 / S sum_s p_sc)^(1 / T),   loss = 1 / S sum_s |p_s - q|^2

is averaged over all nodes (Feng et al., "Graph random neural networks for semi-supervised learning
on graphs", NeurIPS 2020). Of several labels per node each class is a yes or no of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphconv.kernels.hashing import hash_key

OTHERS = 4  # what the seed decides here; `mini_batches` has the numbers before


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), of each element alike; torch's rounds the last of an array otherwise.

    Examples
    --------
    >>> import torch
    >>> from graphconv.engine.agreement import sigmoid
    >>> sigmoid(torch.tensor([-200.0, 0.0, 200.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return 1 / (1 + torch.exp(-x))


def agreement_slopes(
    logits: Sequence[Tensor], temperature: float, is_multilabel: bool = False
) -> list[Tensor]:
    """The gradient of the loss, summed over nodes, for the logits of each copy.

    Parameters
    ----------
    logits : sequence of Tensor of shape (n_rows, n_replicas, n_classes)
    temperature : float
        T of the sharpening, above 0: the lower, the surer is what copies are to agree with.
    is_multilabel : bool

    Examples
    --------
    Two copies that are equally unsure of two nodes lean to what both prefer:

    >>> import torch
    >>> from graphconv.engine.agreement import agreement_slopes
    >>> both = [torch.tensor([[[0.0, 1.0]], [[2.0, 0.0]]])] * 2
    >>> agreement_slopes(both, temperature=0.5)[0].argmin(dim=2).ravel().tolist()
    [1, 0]
    """
    # One replica after the other: torch rounds the rest of a row of vectors otherwise than these,
    # and a replica must learn what it would learn alone.
    by_replica = [
        _slopes([own[:, replica] for own in logits], temperature, is_multilabel)
        for replica in range(logits[0].shape[1])
    ]
    return [torch.stack(own, dim=1) for own in zip(*by_replica, strict=True)]


def _slopes(logits: Sequence[Tensor], temperature: float, is_multilabel: bool) -> list[Tensor]:
    """The same of one replica, (n_rows, n_classes)."""
    n_copies, n_classes = len(logits), logits[0].shape[1]
    # Classes first: torch is slow over a short last axis.
    firsts = [own.T.contiguous() for own in logits]
    if is_multilabel:
        shares = [sigmoid(own) for own in firsts]
        mean = torch.stack(shares).mean(dim=0)
        yes, no = mean ** (1 / temperature), (1 - mean) ** (1 / temperature)
        wanted = yes / (yes + no)
        factor = 4 / n_copies / n_classes  # both answers of each class, which are averaged
        return [(factor * (own - wanted) * own * (1 - own)).T for own in shares]
    shares = [own.softmax(dim=0) for own in firsts]
    mean = torch.stack(shares).mean(dim=0)
    # The largest becomes 1 before the power, so that one of them stays above 0.
    raised = (mean / mean.amax(dim=0)) ** (1 / temperature)
    wanted = raised / raised.sum(dim=0)
    slopes = [2 / n_copies * (own - wanted) for own in shares]
    return [
        (own * (slope - (slope * own).sum(dim=0))).T
        for own, slope in zip(shares, slopes, strict=True)
    ]


def drawn_nodes(n_nodes: int, n_drawn: int, seed: int, *numbers: int) -> npt.NDArray[np.int64]:
    """Some nodes of a graph by chance, each once, in their order: fewer where some came twice."""
    rng = np.random.default_rng(hash_key(seed, OTHERS, *numbers))
    return np.unique(rng.integers(n_nodes, size=n_drawn))
