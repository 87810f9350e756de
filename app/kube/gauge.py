"""One number for a scrape of metrics."""

Gauge = tuple[str, str, dict[str, str], float]
"""Name without prefix, help text, labels, value."""
