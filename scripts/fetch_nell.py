"""NELL's files as docs/results.md was measured with, into a folder for --data-dir.

    python scripts/fetch_nell.py data/nell                              downloads the archive
    python scripts/fetch_nell.py data/nell --archive nell_data.tar.gz   takes yours

The Planetoid authors' archive has the files ind.nell.0.001.*. All of them but `ally` are taken,
scripts/nell_known_labels.csv joins them, and each is compared with scripts/nell_files.sha256 before
it is written.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import urllib.request
from pathlib import Path, PurePosixPath

from graphconv.io.datasets.download import check_sha256
from graphconv.io.files import replacing_file

SCRIPTS = Path(__file__).resolve().parent
ARCHIVE = "http://www.cs.cmu.edu/~zhiliny/data/nell_data.tar.gz"
KNOWN_LABELS = "known_labels.csv"


def checksums(path: Path = SCRIPTS / "nell_files.sha256") -> dict[str, str]:
    """SHA-256 of every file that is needed, by its name."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {name: sha256 for sha256, name in (line.split() for line in lines)}


def files_of(archive: bytes, wanted: dict[str, str]) -> dict[str, bytes]:
    """Contents of the wanted files, checked."""
    found = {KNOWN_LABELS: (SCRIPTS / "nell_known_labels.csv").read_bytes()}
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        for member in members:
            name = PurePosixPath(member.name).name
            content = members.extractfile(member) if member.isreg() else None
            if name in wanted and content is not None:
                found[name] = content.read()
    for name, sha256 in wanted.items():
        if name not in found:
            raise OSError(f"the archive must hold {name}, but it does not")
        check_sha256(found[name], sha256, name)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--archive", type=Path, help="instead of a download")
    options = parser.parse_args(arguments)
    try:
        if options.archive is None:
            with urllib.request.urlopen(ARCHIVE, timeout=60) as answer:
                archive = answer.read()
        else:
            archive = options.archive.read_bytes()
        found = files_of(archive, checksums())
        options.folder.mkdir(parents=True, exist_ok=True)
        for name, content in found.items():
            with replacing_file(options.folder / name) as temporary:
                temporary.write_bytes(content)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise SystemExit(f"fetch_nell: {error}") from None
    print(f"{len(found)} files in {options.folder}, all as expected")


if __name__ == "__main__":
    main()
