"""Stands in for modules that a framework imports beside its configuration: what needs a GPU, a cluster or a download. A
name of theirs is a class that can be subclassed, called, subscripted and used as a decorator; nothing of it computes."""
import importlib.abc
import importlib.machinery
import sys
import types


class _Name(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _thing(name)

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, key):
        return cls

    def __iter__(cls):
        return iter(())


def _thing(name):
    """A class of that name; called with a function alone it is a decorator that leaves the function as it is."""
    def new(cls, *words, **named):
        decorates = len(words) == 1 and not named and callable(words[0])
        return words[0] if decorates else object.__new__(cls)

    return _Name(name, (), {"__new__": new, "__init__": lambda *a, **k: None,
                            "__call__": lambda self, *a, **k: a[0] if a else self,
                            "__getattr__": lambda self, attribute: _thing(attribute)})


class _Module(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        value = "99.0" if name == "__version__" else _thing(name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def absent(*names):
    sys.meta_path.insert(0, _Finder(names))
