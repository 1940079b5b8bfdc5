"""From answers to a verdict."""
