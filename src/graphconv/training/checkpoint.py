"""Models on disk: safetensors for numbers, JSON for everything else, nothing that can run code.

A FittedGCN enters, a folder leaves; and back. While a training runs, its state lies in
one file beside the folder, from which it continues bit for bit.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors
import safetensors.numpy

from graphconv import __version__
from graphconv.engine.network import Network
from graphconv.graph import Graph
from graphconv.graph.names import SCALINGS, SPLIT_NAMES
from graphconv.graph.scaling import FeatureScaler
from graphconv.io.array_files import read_arrays, write_arrays
from graphconv.io.files import (
    check_replaceable,
    json_text,
    read_json,
    remove_leftovers,
    replacing_file,
    replacing_folder,
)
from graphconv.io.graph_files import read_npz, write_npz
from graphconv.io.table_encoding import TableEncoding
from graphconv.io.table_files import existing_file
from graphconv.io.wording import one_line, shown
from graphconv.models.settings import Settings
from graphconv.storage.stored_graph import is_stored_graph, open_graph
from graphconv.training.calibration import Calibration
from graphconv.training.fit import build_model
from graphconv.training.fitted import FittedGCN
from graphconv.training.loop import Saved

FORMAT = 1


@dataclass(frozen=True)
class SavedModel:
    """A model with what it needs to read new tables as it read those it was trained on.

    `identity` says what training it came from, as in `TrainingFile`.
    """

    fitted: FittedGCN
    encoding: TableEncoding | None = None
    table_options: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    identity: dict[str, Any] = field(default_factory=dict)


def save_model(saved: SavedModel, folder: Path, also: Callable[[Path], None] | None = None) -> None:
    """Write a model folder, whole or not at all.

    Parameters
    ----------
    saved : SavedModel
    folder : Path
        Made if need be. A model folder that is there is replaced; anything else is left alone.
    also : callable, optional
        Writes more of `files.RESULT_FILES` into the folder that it is given.
    """
    check_replaceable(folder)
    fitted = saved.fitted
    arrays = dict(fitted.network.parameters)
    for name in ("mean", "scale"):
        values = getattr(fitted.scaler, name)
        if values is not None:
            arrays[f"scaler.{name}"] = values
    description = {
        "format": FORMAT,
        "model": "gcn",
        "settings": fitted.settings.to_json(),
        "choice": fitted.choice,
        "seeds": list(fitted.network.seeds),
        "lambda_max": fitted.network.model.graph.lambda_max,
        "classes": [_plain(name) for name in fitted.graph.class_names],
        "n_features": fitted.graph.n_features,
        "scaling": fitted.scaler.kind,
        "n_epochs": fitted.n_epochs,
        "calibration": fitted.calibration.to_json(),
        "undescribed_calibration": (
            None
            if fitted.undescribed_calibration is None
            else fitted.undescribed_calibration.to_json()
        ),
        "history": fitted.history,
        "metrics": saved.metrics,
        "identity": saved.identity,
        "table_options": saved.table_options,
        "encoding": None if saved.encoding is None else saved.encoding.to_json(),
        "data_fingerprint": fitted.graph.fingerprint(),
        # A graph on disk stays where it is; the model only says where that was.
        "stored_graph": None if fitted.graph.folder is None else str(fitted.graph.folder),
        "versions": {
            "graphconv": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": version("torch"),
        },
    }
    with replacing_folder(folder) as new:
        _save_arrays(arrays, new / "model.safetensors")
        (new / "model.json").write_text(json_text(description, indent=1), encoding="utf-8")
        if fitted.graph.folder is None:
            write_npz(fitted.graph, new / "graph.npz")
        else:
            splits = {name: getattr(fitted.graph, f"{name}_index") for name in SPLIT_NAMES}
            write_arrays(new / "splits.npz", splits)
        if also is not None:
            also(new)


def _save_arrays(arrays: Saved, path: Path, metadata: dict[str, str] | None = None) -> None:
    try:
        path.touch()
        mode = path.stat().st_mode  # as of any other file; safetensors would let nobody else read
        safetensors.numpy.save_file(arrays, path, metadata)
        path.chmod(mode)
    except safetensors.SafetensorError as error:
        # It wraps what the operating system said: "I/O error: ... (os error 28)", before version
        # 0.5 "IoError(Os { code: 28, ...".
        found = re.search(r"os error (\d+)|Os { code: (\d+)", str(error))
        if found is None:
            raise
        number = int(found[1] or found[2])
        raise OSError(number, os.strerror(number), str(path)) from error


def load_model(folder: Path, moved_to: Path | None = None) -> SavedModel:
    """Read a model folder that `save_model` wrote.

    Parameters
    ----------
    folder : Path
    moved_to : Path, optional
        Where else the graph on disk may be that the model was trained on.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from graphconv import load_dataset
    >>> from graphconv.training.checkpoint import SavedModel, load_model, save_model
    >>> from graphconv.training.fit import fit_gcn
    >>> fitted = fit_gcn(load_dataset("karate"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(SavedModel(fitted), Path(folder) / "model")
    ...     again = load_model(Path(folder) / "model").fitted
    >>> bool((again.probabilities() == fitted.probabilities()).all())
    True
    """
    description = read_description(folder)
    try:
        arrays = safetensors.numpy.load_file(existing_file(folder / "model.safetensors"))
        graph = _training_graph(folder, description, moved_to)
        settings = Settings.from_json(description["settings"])
        fitted = _rebuild(description, settings, graph, arrays)
        return SavedModel(
            fitted,
            read_encoding(description, graph),
            description["table_options"],
            description["metrics"],
            description.get("identity", {}),
        )
    except (
        KeyError,
        TypeError,
        AttributeError,
        RuntimeError,
        safetensors.SafetensorError,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{folder} must be a complete graphconv model, but: {reason}") from error


def read_encoding(description: dict[str, Any], graph: Graph) -> TableEncoding | None:
    """What a model folder says of how tables became features."""
    if description["encoding"] is None:
        return None
    encoding = TableEncoding.from_json(description["encoding"])
    # Others may follow them: of a matrix, or of the places in the graph.
    last = [max(places) for places in encoding.features_of_columns.values()]
    if any(place >= graph.n_features for place in last):
        raise TypeError(
            f"its encoding makes {1 + max(last)} features, the graph has {graph.n_features}"
        )
    return encoding


def _training_graph(folder: Path, description: dict[str, Any], moved_to: Path | None) -> Graph:
    stored = description.get("stored_graph")
    if stored is None:
        return read_npz(folder / "graph.npz")
    splits = read_splits(folder / "splits.npz")
    for place in (moved_to, Path(stored)):
        if place is not None and is_stored_graph(place):
            graph = open_graph(place).with_split(*splits)
            if graph.fingerprint() == description["data_fingerprint"]:
                return graph
    raise FileNotFoundError(
        f"{folder} was trained on the graph in {stored}, which is not there or has changed: "
        "where it was moved to can be given as the data"
    )


def read_splits(path: Path) -> list[npt.NDArray[Any]]:
    """Train, validation and test nodes; `with_split` looks at what they are."""
    try:
        arrays = read_arrays(existing_file(path))
        return [arrays[name] for name in SPLIT_NAMES]
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"{path} must hold the splits of a graph, but: {one_line(error)}"
        ) from None


def read_description(folder: Path) -> dict[str, Any]:
    """What a model folder says of its model: settings, classes, metrics and so on."""
    path = folder / "model.json"
    if not path.is_file():
        what = "has no model.json" if folder.is_dir() else "is not there"
        raise FileNotFoundError(f"{folder} must be a graphconv model folder, but {what}")
    description = read_json(path)
    found = description.get("format")
    refusal = f"{path} must have model format {FORMAT}, got {found!r}"
    if type(found) is not int or found < FORMAT:  # JSON's true equals 1
        raise ValueError(refusal)
    if found > FORMAT:
        raise ValueError(f"{refusal}: it was written by a newer graphconv")
    for name in ("settings", "history", "metrics", "identity", "table_options"):
        if not isinstance(description.get(name, {}), dict):
            raise ValueError(f"{path} must be complete, but its {name} is no JSON object")
    if not isinstance(description.get("choice", ""), str):
        raise ValueError(f"{path} must be complete, but its choice is no text")
    notes = description.get("metrics", {}).get("notes") or []
    if not (isinstance(notes, list) and all(isinstance(note, str) for note in notes)):
        raise ValueError(f"{path} must be complete, but its notes are no list of text")
    return description


def _rebuild(
    description: dict[str, Any], settings: Settings, graph: Graph, arrays: Saved
) -> FittedGCN:
    for name, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise RuntimeError(f"{name} in model.safetensors holds what is not a number")
    scaler = _scaler(description["scaling"], arrays, graph.n_features)
    # The eigenvalue belongs to the training; other graphs have others.
    known = replace(settings, lambda_max=description["lambda_max"])
    network = build_model(graph, known, description["seeds"])
    apart = description.get("undescribed_calibration")
    _load_weights(network, arrays)
    return FittedGCN(
        graph,
        settings,
        scaler,
        network,
        description["n_epochs"],
        # JSON has no NaN, which the validation scores are without validation nodes.
        {
            name: [math.nan if value is None else value for value in values]
            for name, values in description["history"].items()
        },
        description["choice"],
        # Models of earlier versions have none.
        Calibration(**description.get("calibration", {})),
        None if apart is None else Calibration(**apart),
    )


def _scaler(kind: Any, arrays: Saved, n_features: int) -> FeatureScaler:
    """The scaling of a saved model; its arrays are taken out."""
    names = [name for name in ("scaler.mean", "scaler.scale") if name in arrays]
    shapes = {arrays[name].shape for name in names}
    is_known = kind in SCALINGS and kind != "auto"
    if not is_known or shapes - {(n_features,)} or len(names) != 2 * (kind == "standard"):
        raise RuntimeError(f"its scaling {shown(kind)} is not one that it holds the numbers of")
    return FeatureScaler(kind, *(arrays.pop(name) for name in names))


def _load_weights(network: Network, arrays: Saved) -> None:
    """Put saved weights into a network."""
    parameters = network.parameters
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes != {name: parameter.shape for name, parameter in parameters.items()}:
        raise RuntimeError("its weights are not those of its settings")
    for name, parameter in parameters.items():
        parameter[...] = arrays[name]


def _plain(name: Any) -> Any:
    if isinstance(name, str | int | float | bool):
        return name
    raise ValueError(f"class names must be text or numbers to be saved, got {name!r}")


class TrainingFile:
    """The state of a training that is under way, in one file, replaced whole each time.

    Parameters
    ----------
    path : Path
    identity : dict
        What must be the same for a training to be continued: data, settings, seeds.
    seconds : float
        How often to write; 0 writes after every epoch.
    """

    def __init__(self, path: Path, identity: dict[str, Any], seconds: float = 10.0) -> None:
        self.path = path
        # As JSON reads it back: tuples are lists.
        self.identity = json.loads(json_text(identity))
        self.seconds = seconds
        self.stop_requested = False
        self.has_begun = False  # whether there is anything to save yet
        self._last = monotonic()

    def __call__(self, make_arrays: Callable[[], Saved]) -> None:
        """Write if it is time; if a stop was asked for, write and raise KeyboardInterrupt."""
        self.has_begun = True
        if self.stop_requested or monotonic() - self._last >= self.seconds:
            with replacing_file(self.path) as new:
                metadata = {"identity": json_text(self.identity)}
                _save_arrays(make_arrays(), new, metadata)
            self._last = monotonic()
        if self.stop_requested:
            raise KeyboardInterrupt

    def read(self) -> Saved | None:
        """The saved state; None if there is none."""
        if not self.path.exists():
            return None
        identity = read_identity(self.path)
        for key, value in self.identity.items():
            if identity.get(key) != value:
                verb = "differ" if key.endswith("s") else "differs"
                raise ValueError(
                    f"{self.path} must be from the same training to continue it, but its "
                    f"{key.replace('_', ' ')} {verb}{_shown(identity.get(key), value)}"
                )
        return safetensors.numpy.load_file(self.path)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        remove_leftovers(self.path)


def _shown(before: object, now: object) -> str:
    """The two values of a difference, where they are short enough to help."""
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return f" in {', '.join(names)}"
    brief = all(value is None or len(str(value)) < 30 for value in (before, now))
    return f": {before} there, {now} here" if brief else ""


def read_identity(path: Path) -> dict[str, Any]:
    """What a training file says of the training it belongs to."""
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            identity = json.loads(file.metadata()["identity"])
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a training to continue, but can't be read") from error
    if not isinstance(identity, dict):
        raise ValueError(f"{path} must be a training to continue, but says nothing of it")
    return identity
