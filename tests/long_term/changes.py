"""Two statements and a question: of changes the second has taken the first's place, of look-alikes not."""

from pathlib import Path


def _read():
    groups = {"changes": {}, "look-alikes": {}}
    pairs = []
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines():
        if line.startswith("# "):
            name, tongue = line[2:].split()
            pairs = groups[name].setdefault(tongue, [])
        else:
            pairs.append(tuple(line.split(" | ")))
    return groups


CHANGES, LOOK_ALIKES = _read().values()
