"""One file per panel; each registers itself and is found by name in this folder."""
