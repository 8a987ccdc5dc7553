"""The debugger without its window: session, cursor, granularity."""
