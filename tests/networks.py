"""Networks in double precision, steps that torch can differentiate, rules on numbers."""

import copy

import numpy as np
import torch

from graphconv import kernels
from graphconv.engine._steps import Given
from graphconv.engine.batches import make_batch
from graphconv.engine.network import Network
from graphconv.engine.recorded import Recorded
from graphconv.models.gcn import GCN
from graphconv.models.model import Model
from graphconv.models.propagation import Propagation
from graphconv.models.settings import Settings

RULE_OPTIONS = ("self_loop_weight", "chebyshev_order", "lambda_max")


def double(network):
    network.parameters = {name: own.astype(np.float64) for name, own in network.parameters.items()}
    return network


def with_parameters(network, parameters):
    """The same network with the numbers of tensors, part of torch's record."""
    tensors = dict(zip(network.parameters, parameters, strict=True))
    other = copy.copy(network)
    other.parameters = {name: own.detach().numpy() for name, own in tensors.items()}
    return Recorded(other, tensors)


def make_network(graph, rule="renormalised", *, kernel="auto", seeds=(0,), n_classes=3, **options):
    chosen = {name: options.pop(name) for name in RULE_OPTIONS if name in options}
    propagation = Propagation(rule, graph.directed, **chosen)
    settings = Settings(**{"bias": False, "hidden": (16,), **options})
    model = GCN(graph.n_features, n_classes, settings, propagation)
    return double(Network(model, seeds, kernels.select(kernel)))


class RuleAlone(Model):
    """A rule applied to features that are the terms of the rule, side by side."""

    def __init__(self, n_columns, graph):
        width = n_columns // graph.n_terms
        super().__init__(n_columns, width, Settings(dropout=0.0), graph)
        self.chosen = self.weight("chosen", n_columns, width, graph.n_terms)

    def logits(self, x, graph):
        return graph.propagate(x @ self.chosen)


def rule_network(propagation, n_columns, n_replicas=1, kernel="reference"):
    """Each replica has its own columns, each term its own of these."""
    model = RuleAlone(n_columns // n_replicas, propagation)
    network = double(Network(model, range(n_replicas), kernels.select(kernel)))
    own = n_columns // n_replicas
    width = own // propagation.n_terms
    weight = np.zeros((n_columns, propagation.n_terms, n_replicas, width))
    for replica in range(n_replicas):
        for term in range(propagation.n_terms):
            first = (term * n_replicas + replica) * width
            weight[range(first, first + width), term, replica, range(width)] = 1
    network.parameters["chosen"] = weight
    return network


def apply_rule(propagation, graph, projected, kernel="reference", learned=None):
    """All rows of a rule's result, in double precision."""
    projected = np.asarray(projected, dtype=np.float64)
    network = rule_network(
        propagation, projected.shape[1], 1 if learned is None else len(learned), kernel
    )
    if learned is not None:
        raw = np.log(np.expm1(np.array(learned, dtype=np.float64)))
        network.parameters["propagation.raw_self_loop_weight"] = raw
    batch = make_batch(graph, n_hops=network.n_hops, features=projected, dtype=np.float64)
    return network(batch).reshape(graph.n_nodes, -1)


class _StepFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, step, dropout, n_inputs, *tensors):
        arrays = [tensor.detach().contiguous().numpy() for tensor in tensors]
        given = Given(tuple(arrays[:n_inputs]), tuple(arrays[n_inputs:]), dropout)
        out = step.forward(given)
        keeps = step.keeps
        ctx.step = step
        ctx.n_inputs = n_inputs
        ctx.given = Given(
            given.inputs if keeps in ("input", "both") else (),
            given.weights,
            dropout,
            out if keeps in ("output", "both") else None,
        )
        return torch.from_numpy(np.array(out))

    @staticmethod
    def backward(ctx, gradient):
        for_inputs, for_weights = ctx.step.backward(gradient.contiguous().numpy(), ctx.given)
        return None, None, None, *(torch.from_numpy(own) for own in (*for_inputs, *for_weights))


def run_step(step, inputs=(), weights=(), dropout=None):
    """A step on tensors, part of torch's record; it gets no more than it says it keeps."""
    return _StepFunction.apply(step, dropout, len(inputs), *inputs, *weights)
