"""A desktop visual debugger for decoder-only language models."""
