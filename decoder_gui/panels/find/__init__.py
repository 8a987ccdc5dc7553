"""Panels for finding a fault: breakpoints, watches, where a number comes from."""
