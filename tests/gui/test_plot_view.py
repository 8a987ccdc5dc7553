"""The plot that laboratories share: what is drawn is what the view data holds."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from decoder_gui.theme.style import Style
from decoder_gui.theme.stylesheet import apply_style
from decoder_gui.viewdata.plots import Axis, Mark, Plot, Series
from decoder_gui.widgets.plot_view import PlotView

X = np.asarray([8.0, 16.0, 32.0, 64.0])


@pytest.fixture
def view(qapp: QApplication, qtbot: QtBot) -> PlotView:
    apply_style(qapp, Style())
    made = PlotView("Cost", Style())
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.show()
    return made


def plot(*series: Series, logarithmic: bool = False) -> Plot:
    return Plot(Axis("positions", logarithmic), Axis("ms", logarithmic), tuple(series))


def test_curves_hold_the_numbers_of_the_series(view: PlotView) -> None:
    view.set_plot(plot(Series("a", X, X * 2), Series("b", X, X**2)))
    drawn = [item.getData() for item in view.curves]
    assert np.array_equal(drawn[0][1], X * 2)
    assert np.array_equal(drawn[1][1], X**2)
    view.set_plot(plot(Series("a", X, X)))
    assert len(view.curves) == 1


def test_a_click_near_a_point_finds_it_on_either_kind_of_axis(view: PlotView) -> None:
    for logarithmic in (False, True):
        view.set_plot(plot(Series("a", X, X**2), logarithmic=logarithmic))
        QApplication.processEvents()
        place = view.scene_place(0, 2)
        assert view.point_at(place) == (0, 2)
        assert view.point_at(place + QPointF(0, -120)) is None


def test_a_bar_is_hit_below_its_top(view: PlotView) -> None:
    view.set_plot(plot(Series("", np.arange(4.0), X, mark=Mark.BARS)))
    QApplication.processEvents()
    assert view.point_at(view.scene_place(0, 3) + QPointF(0, 90)) == (0, 3)


def test_the_gist_is_there_for_a_screen_reader(view: PlotView) -> None:
    view.set_plot(Plot(Axis("x"), Axis("y"), description="grows with the length"))
    assert view.accessibleDescription() == "grows with the length"
