"""The process of a daemon and its event loop."""
