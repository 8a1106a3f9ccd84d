"""Two statements and a question: of changes the second has taken the first's place, of look-alikes not."""

from tables import read_tables

TABLES = read_tables(__file__)
CHANGES = {tongue: TABLES[f"changes {tongue}"] for tongue in ("en", "zh")}
LOOK_ALIKES = {tongue: TABLES[f"look-alikes {tongue}"] for tongue in ("en", "zh")}
