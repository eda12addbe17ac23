"""Fits: sampling, labelled draws, the record, the run folder and the diagnostics."""
