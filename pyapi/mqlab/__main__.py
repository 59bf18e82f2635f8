"""`python -m mqlab` is `mqlab`."""

from mqlab.cli import main

main()
