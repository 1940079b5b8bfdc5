"""The sections of a report, one file each: a view of the material in, blocks out."""
