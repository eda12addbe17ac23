"""Posteriors without Stan: quadrature (``exact``) and mean-field variational Bayes (``vb``).

Numbers in, numbers out: nothing here knows of tables, programs or files.
"""
