"""Agreement of copies: what nodes without a label add to the loss.

Logits of several copies of a model enter, which differ in what was dropped out; the gradient that
makes them agree leaves. With p_s the probabilities that copy s of S gives a node, and q their mean
after sharpening, which is taken as given,

    q_c ~ (1 / S sum_s p_sc)^(1 / T),   loss = 1 / S sum_s |p_s - q|^2

is averaged over all nodes (Feng et al., "Graph random neural networks for semi-supervised learning
on graphs", NeurIPS 2020). Of several labels per node each class is a yes or no of its own.
"""

from __future__ import annotations

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


def agreement_slopes(logits: Tensor, temperature: float, is_multilabel: bool = False) -> Tensor:
    """The gradient of the loss, summed over nodes, for the logits of each copy.

    Parameters
    ----------
    logits : Tensor of shape (n_rows, n_copies, n_replicas, n_classes)
    temperature : float
        T of the sharpening, above 0: the lower, the surer is what copies are to agree with.
    is_multilabel : bool

    Examples
    --------
    Two copies that are equally unsure of two nodes lean to what both prefer:

    >>> import torch
    >>> from graphconv.engine.agreement import agreement_slopes
    >>> both = torch.tensor([[0.0, 1.0], [2.0, 0.0]])[:, None, None].expand(2, 2, 1, 2)
    >>> agreement_slopes(both, temperature=0.5)[:, 0].argmin(dim=2).ravel().tolist()
    [1, 0]
    """
    # One replica after the other: torch rounds the rest of a row of vectors otherwise than these,
    # and a replica must learn what it would learn alone.
    each = [_slopes(own, temperature, is_multilabel) for own in logits.unbind(2)]
    return torch.stack(each, dim=2)


def _slopes(logits: Tensor, temperature: float, is_multilabel: bool) -> Tensor:
    """The same of one replica, (n_rows, n_copies, n_classes)."""
    _, n_copies, n_classes = logits.shape
    # Rows last: torch is slow over a short last axis. (n_classes, n_copies, n_rows)
    turned = logits.permute(2, 1, 0).contiguous()
    if is_multilabel:
        shares = sigmoid(turned)
        mean = shares.mean(dim=1, keepdim=True)
        yes, no = mean ** (1 / temperature), (1 - mean) ** (1 / temperature)
        wanted = yes / (yes + no)
        factor = 4 / n_copies / n_classes  # both answers of each class, which are averaged
        slopes = factor * (shares - wanted) * shares * (1 - shares)
    else:
        shares = turned.softmax(dim=0)
        mean = shares.mean(dim=1, keepdim=True)
        # The largest becomes 1 before the power, so that one of them stays above 0.
        raised = (mean / mean.amax(dim=0)) ** (1 / temperature)
        wanted = raised / raised.sum(dim=0)
        away = 2 / n_copies * (shares - wanted)
        slopes = shares * (away - (away * shares).sum(dim=0))
    return slopes.permute(2, 1, 0)


def drawn_nodes(n_nodes: int, n_drawn: int, seed: int, *numbers: int) -> npt.NDArray[np.int64]:
    """Some nodes of a graph by chance, each once, in their order: fewer where some came twice."""
    rng = np.random.default_rng(hash_key(seed, OTHERS, *numbers))
    return np.unique(rng.integers(n_nodes, size=n_drawn))
