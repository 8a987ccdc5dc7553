"""What a breakpoint can wait for. Every module of this package is loaded here and registers its
rules: adding one is writing one class.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from decoder_gui.debugger.rules.core import (
    Entry,
    FieldForm,
    InvalidRule,
    Rule,
    Side,
    Verdict,
    all_rules,
    forms,
    rule,
    rule_from_dict,
)

__all__ = [
    "Entry",
    "FieldForm",
    "InvalidRule",
    "Rule",
    "Side",
    "Verdict",
    "all_rules",
    "forms",
    "rule",
    "rule_from_dict",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
