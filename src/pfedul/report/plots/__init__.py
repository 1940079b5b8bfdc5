"""Drawing: each function is given empty axes or an empty figure and data, and knows no report."""
