"""Runs whose clients are in clusters that never exchange updates (KNOT)."""
