"""How much goes through a daemon: frames of figures, and how they are drawn."""
