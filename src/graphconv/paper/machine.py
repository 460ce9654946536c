"""What the numbers were measured on."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

from graphconv import __version__
from graphconv.kernels import native_missing
from graphconv.paper.workers import n_cores

_CGROUP = Path("/sys/fs/cgroup")


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory and versions; nothing that names the machine or its owner.

    Examples
    --------
    >>> from graphconv.paper.machine import describe_machine
    >>> sorted(describe_machine())[:3]
    ['cores', 'graphconv', 'kernels']
    """
    versions = {name: _version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    total = _meminfo("MemTotal")
    return {
        "processor": _processor(),
        "cores": n_cores(),
        "memory_gb": None if total is None else round(min(total, _limit()) / 1e9, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "graphconv": __version__,
        "kernels": "in C++" if native_missing() is None else "in Python",
        **versions,
    }


def _limit() -> float:
    for path in (_CGROUP / "memory.max", _CGROUP / "memory" / "memory.limit_in_bytes"):
        number = _number(path)
        if number is not None:
            return number
    return float("inf")


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _meminfo(name: str) -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{name}:"):
            return 1024 * float(line.split()[1])
    return None


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return " ".join(line.split(":", 1)[1].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
