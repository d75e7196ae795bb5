# SPDX-License-Identifier: BSD-3-Clause
"""Protocols and optimizers as values, made from what the library lists: there is no second table of them here."""
import inspect
import json
import keyword

from . import _library


class Choice:
    """A protocol or an optimizer with its parameters. `settings` has them as keys of a job file."""

    def __init__(self, section, name, given):
        self.section, self.name, self.given = section, name, given

    @property
    def settings(self):
        """Keys of a job file, and their values."""
        return {f"{self.section}.name": self.name, **{f"{self.section}.{key}": value for key, value in self.given.items()}}

    def __repr__(self):
        return f"{_python_name(self.name)}({', '.join(f'{key}={value!r}' for key, value in self.given.items())})"


def _python_name(name):
    """As Python may write it: dc_async, async_."""
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


def _listed(section):
    return {_python_name(entry["name"]): entry for entry in json.loads(_library.library().troupe_listing())[section]}


def _constructor(section, entry, positional=()):
    parameters = [inspect.Parameter(p["name"], inspect.Parameter.POSITIONAL_OR_KEYWORD if p["name"] in positional
                                    else inspect.Parameter.KEYWORD_ONLY, default=p["default"]) for p in entry["parameters"]]
    parameters.sort(key=lambda p: p.kind)
    signature = inspect.Signature(parameters)

    def make(*args, **kwargs):
        return Choice(section, entry["name"], dict(signature.bind(*args, **kwargs).arguments))

    make.__name__ = make.__qualname__ = _python_name(entry["name"])
    make.__signature__ = signature
    make.__doc__ = "\n".join([entry.get("summary", f"The optimizer {entry['name']}."), ""]
                             + [f"{p['name']}: {p['meaning']}" for p in entry["parameters"]])
    return make


def constructor(name):
    """The constructor of the protocol or optimizer of this name; None: there is none."""
    for section, listed, positional in (("protocol", "protocols", ()), ("optimizer", "optimizers", ("lr",))):
        entry = _listed(listed).get(name)
        if entry is not None:
            return _constructor(section, entry, positional)
    return None


def names():
    """Every protocol and optimizer."""
    return sorted([*_listed("protocols"), *_listed("optimizers")])


def toml(value):
    """A value as a job file spells it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    return repr(value)


def settings(*choices, **keys):
    """KEY=VALUE texts of choices, given by value or by name, and of keys."""
    out = {}
    for section, choice in choices:
        if choice is None:
            continue
        if isinstance(choice, str):
            choice = Choice(section, choice, {})
        if getattr(choice, "section", None) != section:
            raise TypeError(f"{section} = {choice!r} is no {section}; write a name, or troupe.NAME(...)")
        out.update(choice.settings)
    out.update(keys)
    return [f"{key}={toml(value)}" for key, value in out.items()]
