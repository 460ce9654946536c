#!/bin/bash
# Try every command of an installed graphconv in an empty folder: try_commands.sh PATH/TO/graphconv
set -euo pipefail
graphconv=$(realpath -s "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'source,target\na,b\nb,c\nc,d\nd,e\ne,f\nf,a\na,c\n' > edges.csv
printf 'id,label,x\na,u,1\nb,v,2\nc,u,3\nd,v,4\ne,u,5\nf,v,6\n' > nodes.csv
run() { echo "graphconv $*"; "$graphconv" "$@" > output.txt 2>&1 || { cat output.txt; exit 1; }; }
run --version
run datasets
run train --edges edges.csv --nodes nodes.csv --max-epochs 5 -o model --report
run predict model -o predictions.csv
run embed model -o embedding.csv
run explain model a
run suggest model
run report model
run verify model
run compare karate --methods label-propagation --splits 2 -o compared
run demo -o demo
run generate random --nodes 20 --edges 40 -o tables
echo "every command works"
