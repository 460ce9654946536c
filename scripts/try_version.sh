#!/bin/bash
# Install graphconv for one Python and run a part of the tests: try_version.sh PYTHON lowest|newest
# "lowest" takes the oldest versions of all dependencies that pyproject.toml admits.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1
which=$2
name=$("$python" -c 'import platform; print(platform.python_version())')-$which
environment=build/versions/$name
rm -rf "$environment"
"$python" -m venv "$environment"
constraints=$environment/constraints.txt
if [ "$which" = lowest ]; then "$python" scripts/lowest_versions.py > "$constraints"; else : > "$constraints"; fi
"$environment/bin/pip" install --quiet --disable-pip-version-check --constraint "$constraints" \
    ".[app,scale]" pytest hypothesis httpx
"$environment/bin/python" -m pytest -q -p no:cacheprovider ${TESTS:-tests/test_estimator.py \
    tests/test_kernels.py tests/test_training.py tests/test_saving.py tests/test_ingest.py}
echo "$name: passed"
