"""Planning: the cost of sites, links and loads, and the delays of messages."""
