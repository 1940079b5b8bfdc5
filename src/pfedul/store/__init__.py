"""The run folder: files, ledger, commits, copies."""
