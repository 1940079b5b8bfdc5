"""Data: loading it, dealing it to clients, or taking the user's own clients."""
