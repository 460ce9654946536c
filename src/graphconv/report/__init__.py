"""Figures and pages: the only modules that import matplotlib or plotly."""
