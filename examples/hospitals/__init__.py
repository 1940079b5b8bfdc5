"""A user's own package: where the samples are, and what the model is.

pfedul train RUN --data hospitals.data:clients --model hospitals.model:network
"""
