"""Look the packages of an environment up among known vulnerabilities: audit.py PIP_AUDIT FOLDER.

Runs the program pip-audit over a folder of installed packages. Exit code 0: all were looked up and
nothing is known against them; 1: something is known; 2: some could not be looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys

# Not on the registry: graphconv itself, and torch, whose version may name a build ("+cpu").
_NOT_LISTED = {"graphconv", "torch"}


def judge(packages: list[dict[str, object]]) -> tuple[int, list[str]]:
    """The exit code and what to say of what pip-audit found out about packages."""
    wanted = [p for p in packages if p["name"] not in _NOT_LISTED or "skip_reason" not in p]
    known = [p for p in wanted if p.get("vulns")]
    missed = [str(p["name"]) for p in wanted if "skip_reason" in p]
    # mypy: the report is plain JSON, whose values have no types.
    lines = [
        f"{p['name']} {p['version']}: {one['id']}, mended in {', '.join(one['fix_versions'])}"
        for p in known
        for one in p["vulns"]  # type: ignore[attr-defined]
    ]
    if known:
        return 1, lines
    if len(missed) == len(wanted):
        return 2, [f"audit: none of {len(wanted)} packages could be looked up: nothing is checked"]
    if missed:
        return 2, [f"audit: {len(missed)} packages could not be looked up: {', '.join(missed)}"]
    return 0, [f"audit: {len(wanted)} packages looked up, nothing is known against them"]


def main(pip_audit: str, folder: str) -> int:
    """Run pip-audit and print what it came to."""
    command = [pip_audit, "--path", folder, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["no word"])[-1]
        print(f"audit: pip-audit failed, nothing is checked: {reason}")
        return 2
    code, lines = judge(packages)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
