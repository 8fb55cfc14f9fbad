"""Measured figures, one module each; `python -m benchmarks` runs them all."""
