"""Engines that reach clients through Flower."""
