"""What the shipped programs can do beyond sampling, written in NumPy: closed forms and checks.

The module ``NAME`` defines ``CAPABILITIES`` of the program ``stan/NAME.stan``;
:func:`pyflowers.programs.shipped.python_of` imports it by that name.
"""
