"""Configurations and views: decided before anything runs, frozen, and checked as a whole."""
