"""Settings: every hyper-parameter in one frozen record, and the presets made of it.

A hyper-parameter is declared once, here: its type, default, check, group and help. Options of the
command line, the documentation of `GCNClassifier` and the table of the guide are made from that
(`make settings`); a test compares the estimator's signature.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from graphconv.graph.names import SCALINGS, Scaling
from graphconv.io.wording import did_you_mean, naming, one_line
from graphconv.models.catalogue import MODELS
from graphconv.models.kinds import (
    CLASS_WEIGHTS,
    COUNTS,
    RATES,
    SWITCH,
    WIDTHS,
    declaration,
    number,
    one_of,
    optional,
    setting,
    settle,
    whole,
)

Rule = Literal[
    "renormalised", "single-parameter", "first-order", "first-order-only", "chebyshev", "none"
]
RULES: tuple[Rule, ...] = get_args(Rule)
Activation = Literal["relu", "tanh", "elu", "none"]
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
Normalisation = Literal["none", "layer", "batch"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
StoppingRule = Literal["settled", "best", "lowest", "window", "consecutive", "none"]
EARLY_STOPPING: tuple[StoppingRule, ...] = get_args(StoppingRule)
# Headings of the help.
MODEL, TRAINING = "Model", "Training"


@dataclass(frozen=True)
class Settings:
    """How a GCN is built and trained. The defaults serve on data nobody has looked at yet."""

    model: str = setting("gcn", one_of(tuple(MODELS)), MODEL, "The network that is trained.")
    propagation: Rule = setting(
        "renormalised", one_of(RULES, "RULE"), MODEL, "Propagation rule of the paper's table 3."
    )
    self_loop_weight: float | Literal["learn"] = setting(
        1.0,
        number(0, word="learn"),
        MODEL,
        "lambda in A + lambda I, of the renormalised rule: a number, or 'learn'.",
    )
    chebyshev_order: int = setting(2, whole(0), MODEL, "K of the Chebyshev rule.")
    lambda_max: float | Literal["true"] = setting(
        "true",
        number(0, is_open=True, word="true"),
        MODEL,
        "Largest eigenvalue of the Laplacian in the Chebyshev rule: a number; 'true' works it out.",
    )
    hidden: tuple[int, ...] = setting(
        (64,), WIDTHS, MODEL, "Width of each hidden layer, such as 64 or 64,64; 0 for none."
    )
    activation: Activation = setting(
        "relu", one_of(ACTIVATIONS), MODEL, "What follows a hidden layer."
    )
    normalisation: Normalisation = setting(
        "none",
        one_of(NORMALISATIONS),
        MODEL,
        "What hidden values go through before the activation: 'layer' gives those of a node mean "
        "0 and variance 1, 'batch' those of a column over the nodes that a step of training "
        "computes; prediction takes running means of these. With grand, 'batch' comes after the "
        "activation, and each feature has a gain.",
    )
    residual: bool = setting(False, SWITCH, MODEL, "Add a hidden layer's input to its output.")
    jumping_knowledge: bool = setting(
        False,
        SWITCH,
        MODEL,
        "Give the last layer the sum of all hidden layers, which must be of one width, in place "
        "of the last of them.",
    )
    bias: bool = setting(True, SWITCH, MODEL, "Give layers a bias.")
    steps: int = setting(
        10,
        whole(0),
        MODEL,
        "Steps of a model that propagates apart from its layers: appnp, grand.",
    )
    restart: float = setting(
        0.1,
        number(0, 1),
        MODEL,
        "Share of its own prediction that a node keeps at each of these steps, with appnp.",
    )
    row_dropout: float = setting(
        0.5,
        number(0, 0.99),
        MODEL,
        "Probability of dropping all features of a node in training, with grand.",
    )
    correct_and_smooth: bool = setting(
        False,
        SWITCH,
        MODEL,
        "Spread the errors on training labels to neighbours, then smooth what the model says "
        "over the graph, training labels among it.",
    )
    scaling: Scaling = setting(
        "auto", one_of(SCALINGS), MODEL, "How features are scaled; 'auto' looks at them."
    )
    dropout: float | tuple[float, ...] = setting(
        0.5,
        RATES,
        TRAINING,
        "Probability of dropping an input of a layer: one for all layers, or one for each, such "
        "as 0.5,0,0.5.",
    )
    copies: int | None = setting(
        None,
        optional(whole(1)),
        TRAINING,
        "Passes of a training step, each with dropout of its own, that are made to agree on all "
        "nodes, labelled or not. By default 4 with grand, else 1.",
    )
    agreement: float = setting(
        1.0, number(0), TRAINING, "Weight of the copies' disagreement in the loss."
    )
    agreement_warmup: int = setting(
        100, whole(0), TRAINING, "Epochs in which that weight grows from 0 to what it is."
    )
    sharpening: float = setting(
        0.5,
        number(0, 1, is_open=True),
        TRAINING,
        "Temperature of the mean that copies are to agree with: the lower, the surer it is.",
    )
    learning_rate: float = setting(0.01, number(0, is_open=True), TRAINING, "Step size of Adam.")
    weight_decay: float = setting(
        5e-4,
        number(0),
        TRAINING,
        "L2 penalty: the loss grows by half of it times the sum of squared weights.",
    )
    weight_decay_layers: Literal["first", "all"] = setting(
        "first", one_of(("first", "all")), TRAINING, "Layers whose weights are penalised."
    )
    max_epochs: int = setting(1000, whole(1), TRAINING, "Stop after so many epochs at the latest.")
    early_stopping: StoppingRule = setting(
        "settled",
        one_of(EARLY_STOPPING, "RULE"),
        TRAINING,
        "'settled' stops once the accuracy on validation nodes has not risen and the loss on them "
        "not fallen by 1 % for so many epochs as patience says, and goes back to the most accurate "
        "weights (of equals the first, but for a later one with the lowest loss of all epochs so "
        "far); 'best' does the same, but counts any gain; so does 'lowest', which goes back to "
        "the weights of the lowest loss. 'window' is the authors' rule: stop when the validation "
        "loss exceeds its mean over that many epochs before, and keep the last weights. "
        "'consecutive' is the rule of the paper's text: stop once that loss has not fallen below "
        "its lowest for that many epochs in a row, and keep the last weights.",
    )
    patience: int = setting(50, whole(1), TRAINING, "Epochs without gain before stopping.")
    class_weight: Literal["balanced"] | tuple[tuple[Any, float], ...] | None = setting(
        None,
        CLASS_WEIGHTS,
        TRAINING,
        "What a node of each class counts: a weight for each, or 'balanced', "
        "which gives every class the same say, however many labels it has.",
    )
    batch_size: int | None = setting(
        None,
        optional(whole(1)),
        TRAINING,
        "Train on so many nodes at a time. By default all at once.",
    )
    fanout: Literal["all"] | tuple[int, ...] = setting(
        "all",
        COUNTS,
        TRAINING,
        "Neighbours that a node of a mini-batch sums over: all of them, which is exact, or a "
        "sample of so many at each hop, such as 10,10, counted from the nodes to be labelled.",
    )

    def __post_init__(self) -> None:
        for field in fields(self):
            value = settle(field.name, declaration(field).kind, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        if isinstance(self.dropout, tuple) and len(self.dropout) != self.n_layers:
            raise ValueError(
                naming(
                    "{dropout} must be one rate, or one for each of {} layers, got {}",
                    self.n_layers,
                    len(self.dropout),
                )
            )
        if self.self_loop_weight != 1 and self.propagation != "renormalised":
            raise ValueError(
                naming(
                    "{self_loop_weight} must be 1 unless {propagation} is 'renormalised', "
                    "got {!r} with {!r}",
                    self.self_loop_weight,
                    self.propagation,
                )
            )
        if self.fanout != "all" and self.propagation == "chebyshev":
            raise ValueError(
                naming("{fanout} must be 'all' with the chebyshev rule, got {!r}", self.fanout)
            )

        if self.jumping_knowledge and len(set(self.hidden)) != 1:
            raise ValueError(
                naming(
                    "{hidden} must be layers of one width with {jumping_knowledge}, got {}",
                    ", ".join(map(str, self.hidden)) or "none",
                )
            )

    def fanouts(self, n_hops: int) -> tuple[int, ...] | None:
        """Neighbours to sample at each hop of a model that sees so far; None: all of them."""
        if self.fanout == "all" or n_hops == 0:
            return None
        if len(self.fanout) not in (1, n_hops):
            raise ValueError(
                naming(
                    "{fanout} must be one number, or one for each of {} hops, got {}",
                    n_hops,
                    len(self.fanout),
                )
            )
        return self.fanout * n_hops if len(self.fanout) == 1 else self.fanout

    @property
    def n_layers(self) -> int:
        return len(self.hidden) + 1

    def is_full_batch(self, n_train: int) -> bool:
        """Whether one batch holds all training nodes and all their neighbours, so it can stay."""
        size = self.batch_size
        return self.fanout == "all" and (size is None or size >= n_train)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        names = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            hint = did_you_mean(unknown[0], names)
            listed = one_line(", ".join(unknown))
            raise ValueError(f"settings must be known ones, got {listed}{hint}")
        return cls(**values)


ROBUST = Settings()
PAPER = Settings(
    hidden=(16,), bias=False, scaling="row", max_epochs=200, early_stopping="window", patience=10
)
# What the paper changes on NELL, section 6.1.
ON_NELL: dict[str, Any] = {"hidden": (64,), "dropout": 0.1, "weight_decay": 1e-5}
# Paper: rows add up to 1, and the last weights are used; here: rows have length 1, and the best
# weights on validation nodes are kept, because these nodes then are right in 69 % instead of 57 %.
PAPER_NELL = replace(PAPER, **ON_NELL, scaling="l2", early_stopping="best", patience=50)

# Presets that choose a method by trying several, and how many trainings of it are averaged at most;
# the others make one.
SEARCHES = {"quick": 4, "auto": 8, "strong": 8}

# Test accuracy in percent, table 2 of the paper.
PAPER_ACCURACY = {"citeseer": 70.3, "cora": 81.5, "pubmed": 79.0, "nell": 66.0}


def resolve_settings(preset: str, overrides: dict[str, Any]) -> Settings:
    """Settings of a preset with some of them changed.

    Examples
    --------
    >>> from graphconv.models.settings import resolve_settings
    >>> resolve_settings("paper", {"dropout": 0.3}).hidden
    (16,)
    """
    presets = {"robust": ROBUST, "paper": PAPER, "paper-nell": PAPER_NELL}
    if preset in SEARCHES:
        raise ValueError(naming("{preset} {!r} chooses a method: it is no settings", preset))
    if preset not in presets:
        names = ", ".join(repr(name) for name in (*presets, *SEARCHES))
        hint = did_you_mean(preset, (*presets, *SEARCHES))
        raise ValueError(naming("{preset} must be one of {}, got {!r}{}", names, preset, hint))
    return replace(presets[preset], **overrides)
