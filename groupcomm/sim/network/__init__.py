"""The simulated network: paths between hosts, links between sites, and peers without daemons."""
