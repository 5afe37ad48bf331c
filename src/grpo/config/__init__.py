"""From a command line to one frozen, typed `RunConfig`, before anything heavy is imported.

    argv ── overrides.py ──▶ Hydra's words, every name known     compose.py  conf/ + overrides → plain YAML
         ── settle.py ────▶ defaults that give way               check.py    plain YAML → RunConfig, or all mistakes
         ── crosscheck.py ▶ rules between fields                 sizes.py, naming.py, hashing.py   what follows from it

Add a key: one field with a range and a docstring in schema.py, one line in conf/config.yaml.
Add a group option: one file in conf/<group>/; nothing here.
"""
