"""An open run: made, opened, trained."""
