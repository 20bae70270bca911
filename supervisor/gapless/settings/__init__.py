"""The settings of an operator: each with its default and range, and the search for its value.

A value comes from the first of: a flag, the environment, the values file, the config file, the
default. `sections.py` declares those of the core, a feature its own (`declare.py` says how), and
`record.py` holds them all; `kinds.py` has their types and ranges; `reader.py` turns YAML into a
`document.py`; `placeholder.py` expands `${name:default}` with the values that
`source.py` finds in environment and values file; `load.py` decides and checks; `stranger.py`
handles misspelt names; `schema.py` has the names of schemas.
`config/gapless.yml`, the list of settings for people, is made of the declarations.
"""

from __future__ import annotations

from gapless.settings.load import Loaded, environment_schema, load
from gapless.settings.record import Settings
from gapless.settings.reference import dereference, is_reference

__all__ = ["Loaded", "Settings", "dereference", "environment_schema", "is_reference", "load"]
