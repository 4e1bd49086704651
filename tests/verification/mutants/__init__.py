"""Mutants: deliberately wrong variants of the core, in a module for each part that is wrong."""
