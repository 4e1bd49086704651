"""Space-time diagrams of traces: a model of the drawing, and a page that draws it."""
