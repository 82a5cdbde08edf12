"""Reads what vaecf_dist writes, starts it, and reports on its runs."""
