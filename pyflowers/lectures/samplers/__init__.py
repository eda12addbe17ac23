"""Samplers in NumPy, written for readability; :mod:`pyflowers.samplers` exports their names."""
