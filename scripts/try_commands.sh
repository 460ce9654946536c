#!/bin/bash
# Try every command of an installed graphconv in an empty folder: try_commands.sh PATH/TO/graphconv
# Fails when `graphconv --help` lists a command that is not tried here. Wants the extras app and scale.
set -euo pipefail
graphconv=$(realpath -s "$1")
folder=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; fi
    rm -rf "$folder"
}
trap finish EXIT
cd "$folder"
run() {
    echo "graphconv $*"
    echo "$1" >> tried.txt
    "$graphconv" "$@" > output.txt 2>&1 || { cat output.txt; exit 1; }
}

# The page on a free port, until it answers one request.
label_and_ask() {
    echo "graphconv label $*"
    echo label >> tried.txt
    "$graphconv" label "$@" --no-open > label.txt 2>&1 &
    server=$!
    local address=
    for _ in $(seq 600); do
        address=$(grep -o 'http://[^ ]*' label.txt | head -n 1 || true)
        if [ -n "$address" ] || ! kill -0 "$server" 2> /dev/null; then break; fi
        sleep 0.2
    done
    if [ -z "$address" ]; then cat label.txt; exit 1; fi
    "$(dirname "$graphconv")/python" -c '
import sys, urllib.request
assert b"<html" in urllib.request.urlopen(sys.argv[1], timeout=60).read()' "$address"
    kill "$server"
    wait "$server" || true
    server=
}

run --version
run datasets
run generate planted-partition --nodes 60 --edges 200 --classes 2 --features 4 --labelled 0.5 \
    --format csv -o tables
tables=(--edges tables/edges.csv --nodes tables/nodes.csv)
run inspect "${tables[@]}"
run train "${tables[@]}" --max-epochs 5 -o model --report
run predict model -o predictions.csv
run embed model -o embedding.csv
run explain model 0
run suggest model
run doubt model
run report model
run verify model
run compare karate --methods label-propagation --splits 2 -o compared
label_and_ask karate
run ingest "${tables[@]}" -o graph
run partition graph --parts 2
run demo -o demo
run reproduce karate -o paper

"$graphconv" --help | sed -n '/^Commands:/,$ s/^  \([a-z][a-z-]*\)  .*/\1/p' | sort > listed.txt
untried=$(sort -u tried.txt | comm -23 listed.txt -)
if [ ! -s listed.txt ] || [ -n "$untried" ]; then
    echo "not tried:" ${untried:-"no command is listed by graphconv --help"}
    exit 1
fi
echo "all $(wc -l < listed.txt) commands work"
