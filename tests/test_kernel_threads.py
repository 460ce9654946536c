"""Tests of the native kernels: threads, variants of the code and processes change no bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from types import ModuleType

import numpy as np
import pytest
from tests.command_line import ROOT
from tests.kernel_cases import HALF, KEY, big_product, big_results, make_rows, needs_native

from graphconv.kernels import Csr, Dropout, reference


def test_same_bits_for_any_number_of_threads(native: ModuleType) -> None:
    native.set_threads(1)
    want = big_results(native)
    for n in (2, 4):
        native.set_threads(n)
        assert native.get_threads() == n
        for _ in range(3):
            for name, got in big_results(native).items():
                assert got.tobytes() == want[name].tobytes(), f"{name}, {n} threads"


def test_big_results_equal_the_reference(native: ModuleType) -> None:
    native.set_threads(2)
    got_all, want_all = big_results(native), big_results(reference)
    for name, want in want_all.items():
        np.testing.assert_allclose(got_all[name], want, rtol=1e-4, atol=2e-4, err_msg=name)
        if "walks" in name:
            assert (got_all[name] == want).all()


def test_a_replica_gives_the_bits_of_its_single_run(native: ModuleType) -> None:
    rows, _ = make_rows(300, 200)
    long_rows, _ = make_rows(300, 200, density=0.6)
    rng = np.random.default_rng(3)
    weights = rng.standard_normal((4, 200, 16)).astype(np.float32)
    denses = rng.standard_normal((4, 300, 16)).astype(np.float32)
    keys = (3, 5, 7, KEY)
    together = native.feature_product(rows, np.hstack(list(weights)), Dropout(keys, HALF))
    gradient = native.feature_product_transposed(
        rows, np.hstack(list(denses)), 200, Dropout(keys, HALF)
    )
    spread = native.propagate(rows, np.hstack(list(weights)))
    pieces = native.pack_rows(long_rows, 200, 3)
    packed = native.packed_product(pieces, np.hstack(list(weights)))
    for r in range(4):
        columns = slice(16 * r, 16 * r + 16)
        alone = Dropout(keys[r : r + 1], HALF)
        assert (together[:, columns] == native.feature_product(rows, weights[r], alone)).all()
        single = native.feature_product_transposed(rows, denses[r], 200, alone)
        assert (gradient[:, columns] == single).all()
        assert (spread[:, columns] == native.propagate(rows, weights[r])).all()
        assert (packed[:, columns] == native.feature_product(long_rows, weights[r])).all()


@pytest.mark.parametrize("threshold", [HALF, 65536])  # the latter drops nothing
@pytest.mark.parametrize("n_replicas", [2, 3, 5])
@pytest.mark.parametrize("n_rows", [1000, 5000])
def test_few_features_with_many_entries_are_summed_as_alone(
    native: ModuleType, n_rows: int, n_replicas: int, threshold: int
) -> None:
    # Such products are summed up in parts, if they are large; how wide they are must not matter.
    n_columns, row_length = 40, 30
    rng = np.random.default_rng(5)
    indices = np.vstack([np.sort(rng.permutation(n_columns)[:row_length]) for _ in range(n_rows)])
    bounds = np.arange(0, n_rows * row_length + 1, row_length, dtype=np.int32)
    rows = Csr(bounds[:-1].copy(), bounds[1:].copy(), indices.ravel().astype(np.int32), None)
    denses = rng.standard_normal((n_replicas, n_rows, 16)).astype(np.float32)
    keys = tuple(range(1, n_replicas + 1))
    together = native.feature_product_transposed(
        rows, np.hstack(list(denses)), n_columns, Dropout(keys, threshold)
    )
    for r, dense in enumerate(denses):
        alone = native.feature_product_transposed(
            rows, dense, n_columns, Dropout(keys[r : r + 1], threshold)
        )
        np.testing.assert_array_equal(together[:, 16 * r : 16 * r + 16], alone)


VARIANT_SCRIPT = """
import hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from kernel_cases import big_results
from graphconv.kernels import native
native.set_threads(2)
digests = {k: hashlib.sha256(v.tobytes()).hexdigest() for k, v in big_results(native).items()}
print(json.dumps([native.variant(), digests]))
"""


def run_script(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "tests")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@needs_native
def test_every_variant_gives_the_same_bits() -> None:
    ran = {}
    for name in ("baseline", "avx2", "avx512"):
        result = run_script(VARIANT_SCRIPT, GRAPHCONV_SIMD=name)
        if result.returncode:
            assert "GRAPHCONV_SIMD must be one of" in result.stderr, result.stderr
            continue
        variant, digests = json.loads(result.stdout)
        assert variant == name
        ran[name] = digests
    assert "baseline" in ran
    for name, digests in ran.items():
        # Wide products fuse multiplications with additions where the processor can.
        for case, digest in digests.items():
            first = "baseline" if not case.startswith("wide ") or name == "baseline" else "avx2"
            assert digest == ran[first][case], f"{case}, {name}"


@needs_native
@pytest.mark.parametrize("setting", ["0", "many", "-1"])
def test_wrong_number_of_threads_in_the_environment(setting: str) -> None:
    result = run_script("import graphconv.kernels.native", GRAPHCONV_THREADS=setting)
    assert f"GRAPHCONV_THREADS must be in 1 .. 1024, got '{setting}'" in result.stderr


@needs_native
def test_number_of_threads_from_the_environment() -> None:
    script = "from graphconv.kernels import native; print(native.get_threads())"
    assert run_script(script, GRAPHCONV_THREADS="3").stdout.strip() == "3"
    default = int(run_script(script, GRAPHCONV_THREADS="").stdout)
    assert 1 <= default <= (os.cpu_count() or 1)


def test_threads_must_be_positive(native: ModuleType) -> None:
    for n in (0, -1, 5000):
        with pytest.raises(ValueError, match="number of threads must be in"):
            native.set_threads(n)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(native: ModuleType) -> None:
    native.set_threads(4)
    rows, weight, want = big_product(native)  # the parent's helpers exist now
    for _ in range(5):
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs dies
            same = all((native.feature_product(rows, weight) == want).all() for _ in range(20))
            os._exit(0 if same else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert (native.feature_product(rows, weight) == want).all()


def test_several_python_threads_at_once(native: ModuleType) -> None:
    native.set_threads(3)
    rows, weight, want = big_product(native)
    same = []

    def work() -> None:
        same.extend((native.feature_product(rows, weight) == want).all() for _ in range(40))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(same) == 160
    assert all(same)


@needs_native
def test_exit_while_helpers_sleep() -> None:
    script = """
import sys
sys.path.insert(0, sys.argv[1])
from kernel_cases import big_product
from graphconv.kernels import native
native.set_threads(4)
big_product(native)
"""
    result = run_script(script)
    assert (result.returncode, result.stderr) == (0, "")
