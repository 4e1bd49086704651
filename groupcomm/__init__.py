"""Group communication with selectable service levels: the core, free of I/O."""
