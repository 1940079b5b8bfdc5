"""How results look in a terminal."""
