"""Modules of an engine from a checkout of its source, what is not needed of it and below it stood in for."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from unittest.mock import MagicMock

import pytest


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty modules in the place of these, and of all below them."""

    def __init__(self, names):
        self._names = names

    def find_spec(self, name, path=None, target=None):
        known = any(name == one or name.startswith(f"{one}.") for one in self._names)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if known else None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__ = []
        module.__name__ = spec.name
        module.__spec__ = spec
        return module

    def exec_module(self, module):
        pass


def use_checkout(monkeypatch, variable, package, *, below="", stand_ins):
    """Lets the modules of the checkout that an environment variable names be imported; skips the test without one."""
    folder = os.environ.get(variable)
    if folder is None:
        pytest.skip(f"{variable} names no checkout")
    imported = sys.modules.get(package)
    if imported is not None and not any(place.startswith(folder) for place in imported.__path__):
        # The folder of our own tests of that name, which stands on the path, too.
        del sys.modules[package]
    monkeypatch.syspath_prepend(os.path.join(folder, below))
    monkeypatch.setattr(sys, "meta_path", [_StandIns(stand_ins), *sys.meta_path])
