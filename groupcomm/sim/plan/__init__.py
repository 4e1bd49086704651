"""Planning: what sites, links and loads would cost and how long messages would take."""
