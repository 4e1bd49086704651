"""A chat in groups, from a terminal: lines are sent, and events are shown."""
