"""``python -m curricle``: the same as the command ``curricle``."""

from ._program import main

main()
