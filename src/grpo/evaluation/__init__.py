"""Measuring a policy: the statistics, and one evaluation of a split."""
