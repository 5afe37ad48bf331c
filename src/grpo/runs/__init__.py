"""What a run leaves on disk and how it stops and goes on: folder, status, checkpoints, resume, signals, preflight.

Everything here is written so that `kill -9` between any two file operations leaves a state that the next start
understands: files through `atomic.py`, checkpoints as folders that appear by one rename.
"""
