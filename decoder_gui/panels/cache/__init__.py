"""Panels of the cache laboratory."""
