"""The project's own performance figures, each a median over interleaved rounds."""
