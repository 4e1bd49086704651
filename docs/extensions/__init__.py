"""What the site needs beside Sphinx and its packages; docs/conf.py names the modules."""
