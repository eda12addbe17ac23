"""Posteriors without Stan: quadrature (``exact``) and mean-field variational Bayes (``vb``).

The package works on plain numbers and does not depend on tables, programs or files.
"""
