"""Distillation without data: a student forgets on what a generator draws (ZeroFU, Mimir)."""
