"""What a breakpoint can wait for. Every module of this package registers its rules: adding one is
writing one class. They are loaded when all of them are first asked for, so that no start waits.
"""

from __future__ import annotations

from decoder_gui.debugger.stopping.rules.core import (
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
