"""Trying a series: the kernel without and with it, measured by the experiments whose code it touches."""

from __future__ import annotations

from mqlab.trying.plan import TrialPlan, plan_trial
from mqlab.trying.trial import Finding, Trial, TrialRow
from mqlab.trying.work import DEFAULT_MARGIN, try_series

__all__ = ["DEFAULT_MARGIN", "Finding", "Trial", "TrialPlan", "TrialRow", "plan_trial", "try_series"]
