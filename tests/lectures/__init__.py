"""Tests of pyflowers.lectures."""
