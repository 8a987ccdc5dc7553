"""Panels on likelihood and learning."""
