"""Runs: creating, opening and training them."""
