"""Space-time diagrams of traces: a model of what is drawn, and a page that draws it."""
