"""What every package uses and that knows nothing of federations."""
