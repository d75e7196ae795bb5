# SPDX-License-Identifier: BSD-3-Clause
"""libtroupe.so by ctypes: its types and functions, as apps/library/troupe.h has them."""
import ctypes
import os
import pathlib

VERSION = "0.1.0"

ERROR, OVER, STEP, EVALUATE, TIMEOUT, LINE = -1, 0, 1, 2, 3, 4
TRAINED, FROZEN, STATISTIC = 0, 1, 2
TICK_MS = 100  # how long a call may block before Python sees its signals


class Error(RuntimeError):
    """What Troupe says is wrong, and what would be right."""


class Parameter(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("extents", ctypes.POINTER(ctypes.c_int64)), ("rank", ctypes.c_int32),
                ("kind", ctypes.c_int32), ("values", ctypes.c_void_p)]


class Model(ctypes.Structure):
    _fields_ = [("parameters", ctypes.POINTER(Parameter)), ("count", ctypes.c_size_t), ("samples", ctypes.c_int64),
                ("tests", ctypes.c_int64), ("script", ctypes.c_char_p), ("own_optimizer", ctypes.c_int32)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("job", ctypes.c_char_p), ("set", ctypes.POINTER(ctypes.c_char_p)),
                ("model", ctypes.POINTER(Model)), ("program", ctypes.POINTER(ctypes.c_char_p)), ("node", ctypes.c_char_p),
                ("loud", ctypes.c_int32), ("cluster", ctypes.c_char_p), ("certs", ctypes.c_char_p), ("insecure", ctypes.c_int32),
                ("wait_s", ctypes.c_int32)]


class Task(ctypes.Structure):
    _fields_ = [("rows", ctypes.POINTER(ctypes.c_uint32)), ("count", ctypes.c_size_t), ("parameters", ctypes.c_void_p),
                ("gradients", ctypes.c_void_p), ("worker", ctypes.c_int32)]


_SIGNATURES = {
    "troupe_version": (ctypes.c_char_p, []),
    "troupe_listing": (ctypes.c_char_p, []),
    "troupe_main": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]),
    "troupe_open": (ctypes.c_void_p, [ctypes.POINTER(Options), ctypes.c_char_p, ctypes.c_size_t]),
    "troupe_follow": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]),
    "troupe_next": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Task), ctypes.c_int]),
    "troupe_ready": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t]),
    "troupe_done": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_double, ctypes.c_int64, ctypes.c_int64]),
    "troupe_fail": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]),
    "troupe_joined": (ctypes.c_int, [ctypes.c_void_p]),
    "troupe_result": (ctypes.c_char_p, [ctypes.c_void_p]),
    "troupe_parameter_count": (ctypes.c_size_t, [ctypes.c_void_p]),
    "troupe_parameter_at": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(Parameter)]),
    "troupe_offset": (ctypes.c_int64, [ctypes.c_void_p, ctypes.c_size_t]),
    "troupe_error": (ctypes.c_char_p, [ctypes.c_void_p]),
    "troupe_stop": (None, [ctypes.c_void_p]),
    "troupe_close": (None, [ctypes.c_void_p]),
}


def _find():
    """The package's own copy, or where TROUPE_LIBRARY says that another one is."""
    named = os.environ.get("TROUPE_LIBRARY")
    path = pathlib.Path(named) if named else pathlib.Path(__file__).parent / "lib/libtroupe.so"
    if not path.exists():
        raise Error(f"there is no library at {path}; install the package from a wheel, or set TROUPE_LIBRARY to a libtroupe.so")
    return path


def _load():
    path = _find()
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Error(f"{path} has no {name}: it is of another version than this package, which is {VERSION}; "
                        "install both from one wheel") from None
        function.restype, function.argtypes = result, arguments
    version = library.troupe_version().decode()
    if version != VERSION:
        raise Error(f"{path} is of version {version}, and this package of {VERSION}; install both from one wheel")
    return library


_loaded = None


def library():
    """The library, loaded when it is first needed: an import stays cheap."""
    global _loaded  # pylint: disable=global-statement
    if _loaded is None:
        _loaded = _load()
    return _loaded


def program():
    """The program `troupe` that the library's further processes are."""
    beside = _find().resolve().parent / "troupe"
    if not beside.exists():
        raise Error(f"there is no program {beside}, which further nodes would be; install the package from a wheel")
    return str(beside)


def texts(values):
    """A null-terminated array of texts for C."""
    return (ctypes.c_char_p * (len(values) + 1))(*[value.encode() for value in values], None)
