"""Benchmarks that `./scripts/bench` runs, with one file for each, and the code that they share."""
