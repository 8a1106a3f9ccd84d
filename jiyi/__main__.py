"""``python -m jiyi`` is the command line."""

from jiyi.cli.app import main

if __name__ == "__main__":
    main()
