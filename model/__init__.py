"""The arithmetic of decoder-only language models, readable without the window."""
