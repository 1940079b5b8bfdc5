"""A Flower deployment on this machine, for trying out: `pfedul up` and `pfedul down`."""
