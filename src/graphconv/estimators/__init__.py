"""Methods with the contract of scikit-learn, and how they compare."""
