"""Plans of sites: what sites, links and loads cost, measured; as tables, as JSON and as a page."""
