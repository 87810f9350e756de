"""The configuration of a command. In a module of its own because pydantic takes a tenth of a second to load, which
commands that read no configuration need not spend."""

import argparse
import os
from typing import Any

from app.config.environment import with_overrides
from app.config.read import configuration_or_defaults
from app.config.schema import Configuration


def configured(arguments: argparse.Namespace, **flags: Any) -> Configuration:
    """Returns the configuration in --config, or the defaults, with the overrides of the environment and of `flags`.
    Raises ConfigurationError."""
    return with_overrides(configuration_or_defaults(arguments.config), os.environ, flags)
