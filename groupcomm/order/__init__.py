"""From received packets to deliveries: blocks, chains, causes and the six levels."""
