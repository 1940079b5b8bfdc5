"""Audit: what a removal left of the client who went, and how that is known."""
