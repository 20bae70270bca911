"""Commands of the project: python examples/django/manage.py migrate."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_of_shop.settings")
    execute_from_command_line(sys.argv)
