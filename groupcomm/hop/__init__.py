"""Packets between rings: handed over at gateways, repaired on their hop."""
