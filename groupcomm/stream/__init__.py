"""One ring's packets at one daemon: what is held, what is missing, what may be forgotten."""
