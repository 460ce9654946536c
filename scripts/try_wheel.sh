#!/bin/bash
# Install a wheel where no compiler can be found and try every command: try_wheel.sh PYTHON WHEEL
set -euo pipefail
scripts=$(realpath "$(dirname "$0")")
python=$(command -v "$1")
wheel=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$python" -m venv environment
mkdir tools
for tool in bash cat comm dirname env grep head mktemp realpath rm sed seq sleep sort wc; do
    ln -s "$(command -v $tool)" tools/
done
export PATH=$folder/tools
unset CC CXX PYTHONPATH
for compiler in cc c++ gcc g++ clang clang++ cmake ninja make; do
    if command -v $compiler; then
        echo "$compiler must not be found"
        exit 1
    fi
done
environment/bin/python -m pip install --quiet --disable-pip-version-check "$wheel[app,scale]"
environment/bin/python -c '
import sys, graphconv
from graphconv import kernels
assert graphconv.__file__.startswith(sys.prefix), graphconv.__file__
missing = kernels.native_missing()
assert missing is None, missing'
bash "$scripts/try_commands.sh" environment/bin/graphconv
