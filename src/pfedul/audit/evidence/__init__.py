"""What an audit writes down."""
