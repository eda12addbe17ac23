"""Tests of pyflowers.lecture."""
