"""Two runs side by side: what is compared, where they differ first, and where that comes from."""
