"""`python -m bln_search`: the command `bln-search`, where its script is not on the path."""

from bln_search.cli.entry import main

if __name__ == "__main__":
    main()
