#!/bin/sh
# Runs the kernel tests and the corpus of fuzzing on an extension built with the address and
# undefined-behaviour sanitizers, then the kernel tests on one built with the thread sanitizer. Any
# finding fails the run.
#
# PYTHON is the interpreter to use; it must have what the tests need, and nanobind, cmake and ninja.
# CXX is the compiler, GCC by default, whose sanitizer libraries are preloaded.
set -eu

cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
compiler=${CXX:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
PATH="$scripts:$PATH"

kernel_tests="tests/test_kernel*.py tests/test_training_kernels.py tests/test_large_products.py
    tests/test_sampling.py"

# check NAME FLAGS LIBRARY OPTIONS TESTS: builds with -fsanitize=FLAGS and tests with LIBRARY preloaded.
# Findings name lines; where variables are to be found, the compiler takes ten minutes to work out.
check() {
    echo "== $1 sanitizer"
    cmake -G Ninja -S . -B "$work/$1" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DGRAPHCONV_VARIANTS=avx2 -DCMAKE_CXX_COMPILER="$compiler" \
        -DPython_EXECUTABLE="$(command -v "$python")" \
        -DCMAKE_CXX_FLAGS="-fsanitize=$2 -fno-sanitize-recover=all -fno-omit-frame-pointer -O1" \
        -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-g1" >"$work/$1.log"
    cmake --build "$work/$1" >>"$work/$1.log" 2>&1 || { cat "$work/$1.log"; exit 1; }
    mkdir -p "$work/$1/package"
    cp -r src/graphconv "$work/$1/package/"
    rm -f "$work/$1/package/graphconv/"_native*.so
    cp "$work/$1/"_native*.so "$work/$1/package/graphconv/"
    # An editable install finds its own kernels whatever PYTHONPATH says.
    cat >"$work/$1/package/sitecustomize.py" <<-END
	import sys
	sys.meta_path[:] = [f for f in sys.meta_path if type(f).__name__ != "ScikitBuildRedirectingFinder"]
	END
    # The tests' children inherit all this. The C++ library comes along so that the sanitizer finds
    # what it intercepts there. The threads of numpy's and torch's own products, which are not built
    # for the thread sanitizer, would look like races to it.
    preload="$("$compiler" -print-file-name="$3") $("$compiler" -print-file-name=libstdc++.so.6)"
    run="env $4 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 $python"
    export PYTHONPATH="$work/$1/package"
    used=$(LD_PRELOAD="$preload" $run -c 'from graphconv import _native; print(_native.__file__)')
    case $used in
        "$PYTHONPATH"/*) ;;
        *) echo "$used is tested, not what was built in $PYTHONPATH" && exit 1 ;;
    esac
    # shellcheck disable=SC2086 - words of their own
    LD_PRELOAD="$preload" $run -m pytest -q -n 0 -p no:cacheprovider $5
}

# Of the undefined-behaviour checks, those of every pointer make the compiler take minutes; the
# address sanitizer sees such accesses.
undefined="address,undefined -fno-sanitize=null,vptr,object-size,alignment"
# Python itself never frees some of its memory, so leaks are not looked for.
check address "$undefined" libasan.so ASAN_OPTIONS=detect_leaks=0 \
    "$kernel_tests tests/test_fuzz.py"
# Children of a process with threads are made on purpose.
check thread thread libtsan.so TSAN_OPTIONS=die_after_fork=0:halt_on_error=1:exitcode=66 \
    "$kernel_tests"
