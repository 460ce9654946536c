"""Expected calibration error on test nodes before and after calibration, over seeds.

The public splits with the paper's recipe; every seed has a calibration of its own, fitted to the
validation nodes. As a table and, given a file name, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from graphconv import load_dataset
from graphconv.training.calibration import expected_calibration_error, fit_calibration
from graphconv.training.fit import fit_gcn

N_SEEDS = 10


def measure(name: str) -> dict[str, object]:
    graph = load_dataset(name)
    each = fit_gcn(graph, preset="paper", seeds=range(N_SEEDS), calibrate=False).probabilities()
    validation, test = graph.validation_index, graph.test_index
    fits, before, after = [], [], []
    for run in range(N_SEEDS):
        shares = each[:, run]
        fit = fit_calibration(shares[validation], graph.labels[validation])
        calibrated = fit.apply(shares[test])
        assert (calibrated.argmax(axis=1) == shares[test].argmax(axis=1)).all()
        fits.append(fit)
        before.append(100 * expected_calibration_error(shares[test], graph.labels[test]))
        after.append(100 * expected_calibration_error(calibrated, graph.labels[test]))
    return {
        "dataset": name,
        "seeds": N_SEEDS,
        "temperature": float(np.mean([fit.temperature for fit in fits])),
        "doubt": float(np.mean([fit.doubt for fit in fits])),
        "before": float(np.mean(before)),
        "after": float(np.mean(after)),
        "after_std": float(np.std(after)),
        "after_worst": max(after),
    }


def main() -> None:
    rows = [measure(name) for name in ("cora", "citeseer", "pubmed")]
    print(f"expected calibration error in percent, 15 bins, test nodes, {N_SEEDS} seeds")
    for row in rows:
        print(
            f"{row['dataset']:10s} before {row['before']:5.2f}   after {row['after']:.2f} +- "
            f"{row['after_std']:.2f}, worst {row['after_worst']:.2f}   "
            f"temperature {row['temperature']:.2f}, doubt {row['doubt']:.3f}"
        )
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
