"""What models answer to the samples of an audit."""
