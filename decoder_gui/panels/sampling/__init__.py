"""Panels of the sampling laboratory."""
