"""Properties are tested without a deadline: no test of this project depends on how fast it ran."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
