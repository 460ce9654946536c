"""Named data sets: a name enters, a `Graph` leaves.

Importing this package reads nothing and imports nothing heavy; what a data set needs (scipy,
networkx, a download) is brought in when it is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from graphconv.io.datasets.places import (
    NELL_ARCHIVE,
    NELL_PREFIX,
    cache_dir,
    data_folder,
    find_nell,
)
from graphconv.io.wording import did_you_mean, naming

if TYPE_CHECKING:
    from graphconv.graph import Graph
    from graphconv.io.progress import Progress

__all__ = ["DatasetInfo", "list_datasets", "load_dataset"]


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a data set before it is loaded.

    `n_edges` counts pairs of nodes, a self-loop once. `n_features` of a featureless graph is its
    number of nodes. `cached` says whether loading needs no download: "embedded" where the data
    comes with the package, True where it is in the cache or a data folder, else False.
    """

    name: str
    n_nodes: int | None
    n_edges: int | None
    n_features: int | None
    n_classes: int
    source: str
    cached: bool | Literal["embedded"] = False


_KNOWN = (
    DatasetInfo("karate", 34, 78, 34, 4, "Zachary's karate club, with networkx", "embedded"),
    DatasetInfo("cora", 2708, 5278, 1433, 7, "Planetoid's citation network", "embedded"),
    DatasetInfo("citeseer", 3327, 4676, 3703, 6, "Planetoid's citation network, downloaded"),
    DatasetInfo("pubmed", 19717, 44327, 500, 3, "Planetoid's citation network, downloaded"),
    DatasetInfo("nell", 65755, 125775, 61278, 210, "knowledge graph, from a folder of yours"),
    DatasetInfo(
        "random:N", None, None, None, 1, "the paper's random graph, N nodes, 2N edges", "embedded"
    ),
)


def load_dataset(
    name: str, *, data_dir: str | Path | None = None, progress: Progress | None = None
) -> Graph:
    """Load a data set by its name, with the split that was published with it.

    Parameters
    ----------
    name : {"karate", "cora", "citeseer", "pubmed", "nell", "random:N", "random:N:SEED"}
        cora, citeseer, pubmed: the citation networks with Planetoid's public split (20 training
        nodes a class, 500 validation, 1,000 test), features as stored, not normalised.
        karate: four classes of greatest modularity; training nodes are 0, 5, 33 and 24, of each
        class the member with most neighbours in it, and all others are test nodes.
        nell: the knowledge graph at label rate 0.001, with a one-hot feature for every relation
        node. Validation nodes are the 500 after the training ones where the files include `ally`;
        else 500 of known_labels.csv, those among the official ones first and the rest drawn with
        a fixed seed; else none.
        random:N: N nodes, 2N edges uniformly at random from SEED (default 0), no features, one
        dummy class, all nodes for training.
    data_dir : path, optional
        Folder with files of your own: ind.citeseer.*, ind.pubmed.* (in it or in a folder named
        after the data set, instead of a download), ind.nell.0.001.* (in it, in nell/ or in
        nell_data/) or the archive nell_data.tar.gz. Default: the variable GRAPHCONV_DATA.
    progress : callable, optional
        Told how far a download is, see `graphconv.io.progress`. Default: the log is.

    Returns
    -------
    Graph

    Examples
    --------
    >>> from graphconv.io.datasets import load_dataset
    >>> cora = load_dataset("cora")
    >>> cora
    Graph('cora': 2708 nodes, 5278 edges, 1433 features, 7 classes, 2708 labelled)
    >>> len(cora.train_index), len(cora.validation_index), len(cora.test_index)
    (140, 500, 1000)
    """
    key = name.strip().lower()
    if key == "cora":
        from graphconv.io.datasets._packed import read_packed

        return read_packed(Path(__file__).with_name("cora.npz"))
    if key == "karate":
        from graphconv.io.datasets.generated import karate

        return karate()
    if key in ("citeseer", "pubmed"):
        return _load_citation_network(key, data_folder(data_dir), progress)
    if key == "nell":
        return _load_nell(data_folder(data_dir))
    if key.split(":")[0] == "random":
        return _load_random(name)
    names = [info.name for info in _KNOWN]
    hint = did_you_mean(key, names)
    raise ValueError(f"data set must be one of {', '.join(names)}, got {name!r}{hint}")


def list_datasets(data_dir: str | Path | None = None) -> list[DatasetInfo]:
    """All data sets there are, with their sizes and whether they are at hand.

    Parameters
    ----------
    data_dir : path, optional
        As for `load_dataset`.

    Examples
    --------
    >>> from graphconv.io.datasets import list_datasets
    >>> [info.name for info in list_datasets()]
    ['karate', 'cora', 'citeseer', 'pubmed', 'nell', 'random:N']
    """
    folder = data_folder(data_dir)
    return [replace(info, cached=info.cached or _is_at_hand(info.name, folder)) for info in _KNOWN]


def _is_at_hand(name: str, folder: Path | None) -> bool:
    if name == "nell":
        return folder is not None and find_nell(folder) is not None
    places = [] if folder is None else [folder, folder / name]
    return (cache_dir() / f"{name}.npz").is_file() or any(
        (place / f"ind.{name}.graph").is_file() for place in places
    )


def _load_citation_network(name: str, folder: Path | None, progress: Progress | None) -> Graph:
    from graphconv.io.datasets.download import load_downloaded
    from graphconv.io.datasets.planetoid import graph_from_planetoid, read_folder

    if folder is not None:
        for place in (folder, folder / name):
            files = read_folder(place, f"ind.{name}")
            if files is not None:
                return graph_from_planetoid(files, name)
    return load_downloaded(name, progress)


def _load_nell(folder: Path | None) -> Graph:
    from graphconv.io.datasets.nell import load_nell

    place = None if folder is None else find_nell(folder)
    if place is None:
        where = "no folder was named" if folder is None else f"{str(folder)!r} has neither"
        raise FileNotFoundError(
            naming(
                "nell needs a folder with {}.* or {}, named by {data_dir} or GRAPHCONV_DATA, "
                "but {}",
                *(NELL_PREFIX, NELL_ARCHIVE, where),
            )
        )
    return load_nell(place)


def _load_random(name: str) -> Graph:
    from graphconv.io.datasets.generated import random_graph

    _, *numbers = name.strip().split(":")
    if not 1 <= len(numbers) <= 2 or not all(number.isdecimal() for number in numbers):
        raise ValueError(f"a random graph must be named random:N or random:N:SEED, got {name!r}")
    n_nodes = int(numbers[0])
    if not 1 <= n_nodes < 2**31:
        raise ValueError(f"a random graph must have 1 to {2**31 - 1} nodes, got {n_nodes}")
    return random_graph(n_nodes, int(numbers[1]) if len(numbers) == 2 else 0)
