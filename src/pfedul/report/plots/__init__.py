"""Drawing functions: each gets an empty figure or axes and data."""
