"""Engines that sample completions, behind one small protocol (`base.Engine`).

A new engine is one class with `generate`, `sync` and `version`, and one file in conf/rollout.
"""
