"""The daemon's HTTP: health, metrics, status, events and a page, for people and for monitoring."""
