"""The server's side of a round: ask, check, average."""
