#!/bin/bash
# Install graphconv for one Python and run the tests: try_version.sh PYTHON lowest|newest [pytest's arguments]
# "lowest" takes the oldest versions of all dependencies that pyproject.toml admits. The environment,
# some gigabytes, is removed afterwards.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
which=$2
shift 2
name=$("$python" -c 'import platform; print(platform.python_version())')-$which
environment=build/versions/$name
trap 'rm -rf "$environment"' EXIT
rm -rf "$environment"
"$python" -m venv "$environment"
constraints=$environment/constraints.txt
if [ "$which" = lowest ]; then "$python" scripts/lowest_versions.py > "$constraints"; else : > "$constraints"; fi
"$environment/bin/pip" install --quiet --disable-pip-version-check --constraint "$constraints" \
    ".[app,databases,excel,scale,tune]" pytest pytest-xdist hypothesis httpx openpyxl polars selenium
"$environment/bin/python" -m pytest -q -n 2 -p no:cacheprovider "$@"
echo "$name: passed"
