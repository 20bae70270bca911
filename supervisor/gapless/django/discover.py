"""The handlers of a project: those in the module `handlers` of each app."""

from __future__ import annotations

import sys

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from gapless.consume.user.handler import Handler


def handlers() -> list[Handler]:
    """Return the handlers of all apps, which `manage.py gapless run` runs."""
    autodiscover_modules("handlers")
    modules = (sys.modules.get(f"{app.name}.handlers") for app in apps.get_app_configs())
    found = [each for module in modules if module for each in vars(module).values()]
    return list(dict.fromkeys(each for each in found if isinstance(each, Handler)))
