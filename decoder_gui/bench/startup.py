"""A fresh process that says when it had painted: ``python -m decoder_gui.bench.startup product``.

``bare`` paints an empty main window with a label and imports nothing but PySide6. Times are
nanoseconds of ``time.monotonic_ns``, which on Linux all processes share; the parent subtracts the
moment at which it started the process.
"""

from __future__ import annotations

import json
import sys
import time


def product() -> dict[str, int]:
    """When the product's window was first painted, and when its prompt had run and was painted."""
    from decoder_gui.bench.inside import FirstPaint, run_product
    from decoder_gui.main_window import MainWindow

    found: dict[str, int] = {}

    def note(_: MainWindow, first: FirstPaint) -> None:
        found["ready"] = time.monotonic_ns()
        found["first_paint"] = first.at

    status = run_product(note)
    if status or not found:
        raise SystemExit(f"the window ended with status {status} before it was ready")
    return found


def bare() -> dict[str, int]:
    """When a window with nothing in it but a label was painted."""
    from PySide6.QtCore import QEvent, QObject, Qt, QTimer
    from PySide6.QtWidgets import QApplication, QLabel, QMainWindow

    found: dict[str, int] = {}

    class Watch(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint and watched is window and not found:
                found["first_paint"] = 0
                QTimer.singleShot(0, painted)
            return False

    def painted() -> None:
        found["first_paint"] = time.monotonic_ns()
        window.close()

    application = QApplication(["bare"])
    window = QMainWindow()
    label = QLabel("bare")
    label.setAlignment(Qt.AlignmentFlag.AlignCenter)
    window.setCentralWidget(label)
    window.resize(1440, 900)
    watch = Watch()
    application.installEventFilter(watch)
    window.show()
    application.exec()
    return found


if __name__ == "__main__":
    print(json.dumps({"product": product, "bare": bare}[sys.argv[1]]()))
