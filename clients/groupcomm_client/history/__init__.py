"""History: from any position on, without a gap, and live events then. See docs/history.md."""
