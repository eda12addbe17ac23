"""A fit: sampling it, its draws with labels, its record, its run folder, its diagnostics."""
