"""What an operator or a view decides before anything runs: frozen, checked whole."""
