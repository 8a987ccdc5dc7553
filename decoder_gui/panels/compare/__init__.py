"""Panels for comparing: branches, and two runs side by side."""
