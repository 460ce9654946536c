"""What is computed, in the words of the paper: settings, propagation, models."""
