"""Mutation testing of the protocol: small changes of the code, which some check has to notice."""
