"""The daemon program: a shell of sockets and files around the core."""
