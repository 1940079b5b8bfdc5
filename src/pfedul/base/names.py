"""The words that some options accept, in a file that imports nothing.

Help and completion need them without torch; the code that acts on them is elsewhere.
"""

ENGINES = ("auto", "inline", "processes", "flower-simulation")

DEVICES = "auto, cpu, cuda, cuda:N or mps"
PRECISIONS = ("float32", "bfloat16")

OPTIMIZERS = ("sgd", "adam", "adamw")
AUGMENTATIONS = ("none", "flip", "crop", "flip+crop")

ORDINARY, DISTIL = "ordinary", "distil"
REPAIRS = (ORDINARY, DISTIL)
"""How the clients of a repair round learn."""
