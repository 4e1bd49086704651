"""Filters between a program and its session; docs/filters.md is their guide."""
