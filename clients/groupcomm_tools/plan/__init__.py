"""What a plan of sites has shown, as tables, as JSON and as a page."""
