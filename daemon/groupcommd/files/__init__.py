"""The files of a daemon: its state folder, and what it has to write before it acts."""
