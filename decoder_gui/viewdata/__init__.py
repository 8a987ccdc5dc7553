"""From a trace, a cursor and a selection to what a panel draws; no Qt here."""
