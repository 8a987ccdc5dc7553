"""Colours, fonts, scaling and projector mode."""
