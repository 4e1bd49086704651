"""The benchmark behind `groupcomm bench`: message rates, delays, and their cost."""
