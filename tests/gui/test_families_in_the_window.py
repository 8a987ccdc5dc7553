"""The whole window on models of other families: every operation shown, nothing missing or wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from decoder_gui.context import AppContext
from decoder_gui.debugger.cursor import Cursor
from decoder_gui.main_window import MainWindow
from decoder_gui.viewdata.attention import CellState, build_attention
from decoder_gui.viewdata.values import build_values
from model.operations import Kind, Operation

GOLDEN = Path(__file__).parent.parent / "model" / "golden"
PROMPT = "3 1 4 1 5 9 2 6 5 3"


def operations_of(context: AppContext) -> tuple[Operation, ...]:
    assert context.moment is not None
    return context.moment.trace.operations


@pytest.mark.parametrize("name", ["gpt_neox", "mistral", "qwen3"])
def test_every_operation_of_a_decoded_token_is_shown(
    make_context: Callable[..., AppContext], name: str
) -> None:
    context = make_context(str(GOLDEN / name), PROMPT, tokens=2)
    window = MainWindow(context.style)
    window.show()
    window.furnish(context)
    labels = set()
    for index, operation in enumerate(operations_of(context)):
        context.seek(Cursor(1, index))
        QApplication.processEvents()
        assert context.moment is not None
        view = build_values(context.moment)
        assert view is not None
        assert not view.message, operation.name
        assert view.derivation is not None, view.without
        assert view.derivation.agrees, operation.name
        labels.add(operation.label)
        if operation.kind is Kind.PATTERN and operation.window:
            attention = build_attention(context.moment)
            readout = attention.readout(10, 10 - operation.window)
            assert readout.state is CellState.MASKED
            assert "no longer sees" in readout.headline_text
            inside = attention.readout(10, 11 - operation.window)
            assert inside.state is CellState.WEIGHT
    assert "Rotary" in labels
    window.close()
    window.deleteLater()
    QApplication.processEvents()
