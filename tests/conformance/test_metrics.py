"""Every metric: twice as good is half the loss, the figure and the loss agree on what is better, arrays are allowed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.search.metrics import ChipFigures, metrics

FIGURES = ChipFigures(step_s=0.5, energy_j=100.0, power_w=250.0, price_usd=700.0, num_devices=4, num_samples=4096)


@pytest.mark.parametrize("name", metrics.names())
def test_a_step_of_half_the_time_and_energy_has_half_the_loss(name):
    metric = metrics[name]
    better = replace(FIGURES, step_s=0.25, energy_j=50.0)
    assert metric.loss(better) == pytest.approx(metric.loss(FIGURES) / 2)


@pytest.mark.parametrize("name", metrics.names())
def test_the_figure_is_the_loss_or_its_inverse(name):
    metric = metrics[name]
    loss, figure = metric.loss(FIGURES), metric.figure(FIGURES)
    assert figure == pytest.approx(loss) or figure == pytest.approx(1 / loss)


@pytest.mark.parametrize("name", metrics.names())
def test_many_designs_at_once_come_to_what_each_comes_to(name):
    metric = metrics[name]
    steps_s = np.array([0.1, 0.5, 2.0])
    many = metric.loss(replace(FIGURES, step_s=steps_s))
    each = [metric.loss(replace(FIGURES, step_s=float(step_s))) for step_s in steps_s]
    np.testing.assert_allclose(np.broadcast_to(many, 3), each)


@pytest.mark.parametrize("name", metrics.names())
def test_it_says_what_it_is_in(name):
    assert metrics[name].unit
    assert metrics[name].summary
