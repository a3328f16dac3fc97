"""Stands in for sgl_kernel, whose CPU build is on no registry: every name imports, and calling one raises.

`lab.sh` copies it to `site-packages/sgl_kernel/__init__.py`. With torch-native attention SGLang calls nothing of it.
"""

import importlib.abc
import importlib.machinery
import sys
import types

import torch

__version__ = "0.4.10"


class _Stub:
    def __init__(self, name):
        self.__dict__["_name"] = name
        self.__dict__["__name__"] = name

    def __call__(self, *args, **kwargs):
        raise NotImplementedError(f"sgl_kernel is a stub here: {self._name}")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, _Stub(f"{self._name}.{name}"))


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__.setdefault(name, _Stub(f"{self.__name__}.{name}"))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("sgl_kernel."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return globals().setdefault(name, _Stub(name))


sys.meta_path.append(_Finder())

# SGLang asks for these two while it starts.
_operators = torch.library.Library("sgl_kernel", "FRAGMENT")
_operators.define("init_cpu_threads_env(str cpu_ids) -> str")
_operators.impl("init_cpu_threads_env", lambda cpu_ids: "stub: threads not bound", "CompositeExplicitAutograd")
_operators.define("initialize(int size, int rank) -> ()")
_operators.impl("initialize", lambda size, rank: None, "CompositeExplicitAutograd")
