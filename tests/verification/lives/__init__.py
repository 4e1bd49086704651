"""Long lives: one simulated cluster for a day or more, with faults, load, and hours of quiet."""
