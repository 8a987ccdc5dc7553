"""Groups of commands of the window, each with a state of its own, reached through the context."""
