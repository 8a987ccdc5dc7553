"""Where a run stops: breakpoints, conditions, running to them; and what is watched on the way."""
