"""The sections of a report, one file each: a material of the material in, blocks out."""
