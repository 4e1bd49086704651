"""The results of a plan of sites, as tables, as JSON and as a page."""
