"""How much memory there is: of the machine, and of the container the process runs in."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_NO_LIMIT = 1 << 60


def available_memory() -> int:
    """Bytes that this process can still take, by the machine, its control group and its limits.

    Processes that torchrun has started on one machine get equal shares of what it has.

    Examples
    --------
    >>> from graphconv.storage.memory import available_memory
    >>> available_memory() > 0
    True
    """
    group = _left_in_group(Path("/sys/fs/cgroup"))
    free = max(0, min(_free_on_machine(), group, _left_of_addresses()))
    return free // n_processes_here()


def n_processes_here() -> int:
    """How many processes of one training share this machine: as many as torchrun has started."""
    return max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def parse_bytes(text: str) -> int:
    """A number of bytes as people write it.

    Examples
    --------
    >>> from graphconv.storage.memory import parse_bytes
    >>> parse_bytes("6GiB"), parse_bytes("1.5 GB"), parse_bytes("1048576")
    (6442450944, 1500000000, 1048576)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError(f"an amount of memory must be like 6GiB or 500MB, got {text!r}")
    power = " kmgt".index(found[2].lower() or " ")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power)


def in_units(n_bytes: float) -> str:
    """A number of bytes for people.

    Examples
    --------
    >>> from graphconv.storage.memory import in_units
    >>> in_units(3_500_000), in_units(6_442_450_944)
    ('4 MB', '6.4 GB')
    """
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def _free_on_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not on this system
        return _NO_LIMIT


def address_limit() -> int:
    """Bytes of addresses that the system lets a process have (`ulimit -v`); a lot without a limit.

    Examples
    --------
    >>> from graphconv.storage.memory import address_limit
    >>> address_limit() > 0
    True
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return _NO_LIMIT
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return _NO_LIMIT if limit == resource.RLIM_INFINITY else limit


def _left_of_addresses() -> int:
    limit = address_limit()
    if limit >= _NO_LIMIT:
        return _NO_LIMIT
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return limit
    return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))


def _left_in_group(root: Path) -> int:
    """What the tightest control group leaves, in version 2 or 1; a lot if none sets a limit."""
    left = _NO_LIMIT
    for folder in _groups(root):
        for limit, used, reclaimable in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            try:
                allowed = int((folder / limit).read_text())
                taken = int((folder / used).read_text())
                # The page cache counts as used, but makes way.
                for line in (folder / "memory.stat").read_text().splitlines():
                    name, _, value = line.partition(" ")
                    taken -= int(value) if name == reclaimable else 0
            except (OSError, ValueError):
                continue  # no such file, or "max"
            left = min(left, max(0, allowed - taken))
    return left


def _groups(root: Path) -> list[Path]:
    """Folders of the process's control groups, from its own up to the root."""
    folders = [root, root / "memory"]
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return folders
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            start = root if number == "0" else root / "memory"
            parts = [part for part in path.split("/") if part and part != ".."]
            folders += [start.joinpath(*parts[:n]) for n in range(1, len(parts) + 1)]
    return folders


def resident_memory() -> int:
    """Memory of this process that is resident now, in bytes; 0 where nobody tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def peak_memory() -> int:
    """The most memory this process has had resident so far, in bytes; 0 where nobody tells."""
    try:
        # Linux counts in getrusage what the parent had when it started this process.
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
