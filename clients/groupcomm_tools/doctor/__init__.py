"""What may be wrong with a daemon and its host: checks, each with a finding and its remedy."""
