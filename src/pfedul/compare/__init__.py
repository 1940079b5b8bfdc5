"""Comparison: every method from one checkpoint of a run, each in a branch of its own.

A *cell* is a method with its options and a seed. It forgets in a branch of the run, in
its own process, and is audited there against the same oracles as all others.
"""
