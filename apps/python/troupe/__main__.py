# SPDX-License-Identifier: BSD-3-Clause
"""The program `troupe`, as `python -m troupe` or as the wheel's command."""
import os
import sys

from . import _library


def main():
    """Becomes the program."""
    os.execv(_library.program(), ["troupe", *sys.argv[1:]])


if __name__ == "__main__":
    main()
