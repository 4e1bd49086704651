"""The token ring of one site: numbering, repair, flow control, and horizons for other rings."""
