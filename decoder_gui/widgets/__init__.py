"""Widgets that know data and no context."""
