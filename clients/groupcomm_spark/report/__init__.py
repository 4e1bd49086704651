"""What happened, in figures and pictures: rates, delays, losses, view changes."""
