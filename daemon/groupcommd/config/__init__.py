"""The configuration of a daemon: its file, checked completely before anything is opened."""
