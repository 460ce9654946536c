"""The loop, early stopping, fit, search, calibration, checkpoints; several processes."""
