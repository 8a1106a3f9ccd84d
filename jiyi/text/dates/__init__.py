"""Time expressions in Chinese and English text, and the days they mean.

Covered: dates in digits and words, months, quarters, seasons, years; days, weekdays and units counted from
now, or from another date ("the week before 9 June 2023", 春节后三天); ranges; "since"; vague words; holidays.
Not covered: times of day, decades, the Chinese calendar except its holidays, repetition ("every Friday").

Weeks begin on Monday; seasons are those of the northern hemisphere, summer from June to August; "two weeks
ago" is the whole calendar week, as two months ago is the month. What is said without a year is the latest
that has begun by now. Time is linear in the length.

`en.toml` and `zh.toml` hold the words and patterns, `meanings` what a match means in either language,
`grammar` the rules and when a match is no date, `find` how neighbouring matches are put together.
"""

from jiyi.text.dates.find import *
