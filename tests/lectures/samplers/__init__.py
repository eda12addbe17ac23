"""Tests of pyflowers.samplers."""
