"""pFedUL: attribution, a plan, corrections."""
