"""pFedUL (arXiv 2606.16304): scores of layers, the plan, corrections, the method."""
