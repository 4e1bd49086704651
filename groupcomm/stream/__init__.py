"""The packets of one ring's stream at one daemon: held, missing, or forgotten."""
