"""This host: addresses, private files and sockets, as daemons and clients both use them."""
