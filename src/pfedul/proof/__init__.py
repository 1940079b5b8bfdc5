"""What others can check: certificates of removals, and the verification of a run folder."""
