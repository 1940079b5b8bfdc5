"""Reports and pictures of a run."""
