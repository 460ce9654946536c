"""JSON output: what `--json` prints, field by field, for whoever reads it with a program.

The page of all commands in the reference is made of this, and the tests hold every command to it.
Fields may be added in later versions; those that are here keep their meaning.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """A field of the object that a command prints."""

    name: str
    kind: str  # "integer", "number", "text", "flag", "object", "list of ..."; "... or null"
    meaning: str
    is_always_there: bool = True


_OUTPUT = Field("output", "text", "Where the result was written.")
_OPTIONAL_OUTPUT = Field("output", "text or null", "Where the result was written, if it was.")
_SECONDS = Field("seconds", "number", "How long it took.")
_NOTES = Field("notes", "list of text", "Remarks on what was done with the data.")

_TRAINING = (
    Field("dataset", "text", "Name of the data."),
    Field("model", "text", "Name of the method."),
    Field("seeds", "list of integer", "Seed of each run."),
    _SECONDS,
    Field("n_nodes", "integer", "Nodes of the graph."),
    Field("n_edges", "integer", "Edges of the graph."),
    Field("n_features", "integer or null", "Features of a node; null without features."),
    Field("classes", "list", "Names of the classes."),
    Field("n_train", "integer", "Labelled nodes that train."),
    Field("n_validation", "integer", "Labelled nodes that decide when to stop."),
    Field("n_test", "integer", "Labelled nodes that judge."),
    Field("n_unlabelled", "integer", "Nodes without a label."),
    Field(
        "paper_accuracy", "number or null", "Test accuracy in the paper, where it is comparable."
    ),
    *(
        Field(f"{part}_accuracy{more}", "number or null", f"{what} {of}.", False)
        for part, of in (
            ("train", "of the training nodes"),
            ("validation", "of the validation nodes"),
            ("test", "of the test nodes"),
        )
        for more, what in (
            ("", "Share of right labels, mean over runs,"),
            ("_std", "With several runs: standard deviation of that share"),
            ("_ensemble", "With several runs: share of right labels, runs averaged,"),
        )
    ),
    *(
        Field(f"{part}_{key}{more}", "number or null", f"With several labels: {what}{how}.", False)
        for part in ("train", "validation", "test")
        for key, what in (
            ("micro_f1", "micro F1"),
            ("macro_f1", "macro F1"),
            ("all_labels_right", "share of nodes with every label right"),
            ("pair_accuracy", "share of right (node, class) pairs"),
        )
        for more, how in (
            ("", ""),
            ("_std", ", its standard deviation over runs"),
            ("_ensemble", ", runs averaged"),
        )
    ),
    _NOTES,
    Field("columns", "list of text", "What each column was taken for that was not declared."),
    _OUTPUT,
    Field("epochs", "integer", "Epochs run, by the longest-running model.", False),
    Field("settings", "object", "All settings, by their names in Python."),
    Field("method", "text", "The method in words, where it was chosen; else the model."),
    Field("choice", "text", "Where a method was chosen: which, by what, and why.", False),
    Field(
        "metric",
        "object or null",
        "name, share, low, high, from, n_nodes and reason of the measure that suits the labels, "
        "where it is not accuracy.",
        False,
    ),
    Field("self_loop_weight", "number", "Weight of self-loops, given or learned.", False),
    Field("calibration", "object", "Temperature and doubt that make confidence believable."),
    Field(
        "undescribed_calibration",
        "object or null",
        "The same for nodes that no table describes.",
        False,
    ),
    Field(
        "test_calibration_error_uncalibrated",
        "number or null",
        "How far confidence is off on test nodes, before calibration.",
    ),
    Field("test_calibration_error_calibrated", "number or null", "The same after calibration."),
    Field(
        "accuracy",
        "object or null",
        "The accuracy to expect: share, low and high end of its 95 % interval, what it comes from.",
    ),
    Field(
        "prediction_sets", "object", "With a coverage: how the sets of classes were made.", False
    ),
)

JSON_OUTPUT: dict[str, tuple[Field, ...]] = {
    "train": _TRAINING,
    "demo": _TRAINING,
    "inspect": (
        Field("tables", "list of object", "Each table: its rows, and role and examples by column."),
        Field("problems", "list of text", "What must be settled before training."),
        _NOTES,
        Field("options", "object", "Options of the proposed command."),
        Field("is_answered", "flag", "Whether training can begin with these options."),
        Field("command", "text", "The proposed command."),
    ),
    "predict": (
        Field("n_nodes", "integer", "Nodes that were labelled."),
        _OUTPUT,
        Field("n_labelled", "integer", "New data: nodes with a label, unseen in training.", False),
        Field("accuracy", "number", "New data: share of these that was labelled right.", False),
    ),
    "embed": (
        Field("n_nodes", "integer", "Rows written."),
        Field("n_columns", "integer", "Hidden activations of a node."),
        _OUTPUT,
    ),
    "explain": (
        Field("node", "any", "The node."),
        Field("label", "any", "The label that is explained."),
        Field("probability", "number", "Its probability."),
        Field("log_odds", "number", "The same as log-odds."),
        Field("predicted", "any", "The label that the model chooses."),
        Field("n_hops", "integer", "How far away a node may be to matter."),
        *(
            Field(kind, "list of object", f"What each {one} changes: item, probability, log_odds.")
            for kind, one in (
                ("edges", "edge"),
                ("neighbours", "neighbour"),
                ("features", "feature"),
            )
        ),
        _NOTES,
        Field("directed", "flag", "Whether edges have a direction."),
        Field("sentence", "text", "The explanation in words."),
        Field("n_edges", "integer", "Edges that were looked at, listed or not."),
        Field("n_neighbours", "integer", "Neighbours that were looked at."),
        Field("n_features", "integer", "Features that were looked at."),
        _OPTIONAL_OUTPUT,
    ),
    "suggest": (
        Field("suggestions", "list of object", "rank, id, label_now, confidence and gain of each."),
        _OPTIONAL_OUTPUT,
    ),
    "doubt": (
        Field("n_labels", "integer", "Given labels that were looked at."),
        Field("n_doubtful", "integer", "Those that look wrong."),
        Field(
            "labels", "list of object", "rank, id, given, likelier, p_given, p_likelier of each."
        ),
        _OPTIONAL_OUTPUT,
    ),
    "compare": (
        Field("dataset", "text", "Name of the data."),
        Field("n_splits", "integer", "Random splits that all methods ran on."),
        Field("n_train", "integer", "Training nodes of a split."),
        Field("n_validation", "integer", "Validation nodes of a split."),
        Field("n_test", "integer", "Test nodes of a split."),
        Field("results", "list of object", "Accuracies, lead and its interval of each method."),
        Field("simplest", "list of text", "Methods from the simplest on."),
        Field("failed", "object", "Methods that could not run, and why."),
        Field("recommended", "text or null", "The method to use."),
        Field("recommendation", "text", "The same in words."),
        Field("caution", "text", "What speaks against relying on it."),
        Field("command", "text or null", "The command that trains it."),
        _OUTPUT,
    ),
    "report": (
        Field("n_nodes", "integer", "Nodes on the page."),
        Field("bytes", "integer", "Size of the page."),
        _OUTPUT,
    ),
    "label": (
        Field("n_labelled", "integer", "Labels given."),
        Field("labels", "text", "File of the labels."),
        Field("output", "text", "Folder of the model, if one was written.", False),
        Field("report", "text", "Page about it.", False),
    ),
    "datasets": (
        Field("datasets", "list of object", "Name, sizes, source and whether each is at hand."),
    ),
    "reproduce": (
        Field("date", "text", "When it was run."),
        Field("machine", "object", "What it was run on."),
        Field("sections", "object", "Text, tables, figures and data of each part of the paper."),
    ),
    "generate": (
        Field("files", "list of text", "Files written."),
        Field("bytes", "integer", "Their size."),
        _SECONDS,
    ),
    "ingest": (
        Field("name", "text", "Name of the graph."),
        Field("n_nodes", "integer", "Nodes."),
        Field("n_edges", "integer", "Edges."),
        Field("n_self_loops", "integer", "Edges of a node to itself."),
        Field("n_isolated", "integer", "Nodes without an edge to another."),
        Field("n_labelled", "integer", "Nodes with a label."),
        _NOTES,
        _OUTPUT,
        _SECONDS,
        Field("peak_memory", "integer", "Bytes of memory at most."),
    ),
    "partition": (
        _OUTPUT,
        Field("parts", "list of object", "Nodes, edges, border and cut edges of each part."),
        Field("n_cut", "integer", "Edges between parts."),
        Field("balance", "object", "Largest over mean, of each of these."),
        _SECONDS,
    ),
    "verify": (
        Field("output", "text", "The folder."),
        Field("bytes", "integer", "Of a graph: bytes that were read and agree.", False),
        Field("fingerprint", "text", "Of a model: what its files and settings amount to.", False),
        Field("data", "object", "Of a model: state of each file it was trained on.", False),
        Field("parts", "object", "Of a model trained on no file: SHA-256 of its graph.", False),
    ),
}
