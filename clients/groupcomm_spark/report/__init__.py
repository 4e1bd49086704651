"""Reports: rates, delays, losses and view changes, as figures and charts."""
