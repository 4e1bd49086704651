"""The traffic of a daemon: frames of figures, and how they are drawn."""
