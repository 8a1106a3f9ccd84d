"""The ranking's weights: one table, learned, the same for Chinese and English.

Made by ``python bench/learn_weights.py FILE... --write``: a softmax over the candidates of each
question (listwise cross-entropy: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to
Listwise Approach"). How they do on conversations they were not learned from stands in
docs/recall-log.md. Z-scores are over the candidates of one question; "dialogue" is the share of
neighbours in a session that another one spoke, 0 in one person's notes.
"""

from collections.abc import Mapping

from jiyi.long_term.features import Feature

__all__ = ["CONFIDENCE", "PRIORS", "WEIGHTS"]

WEIGHTS: Mapping[Feature, float] = {
    # Words
    "words": -0.235,  # z-score of BM25 over the row's own words
    "window": 0.621,  # z-score of BM25 with words borrowed from the two turns before and behind
    "cover": 0.030,  # idf share of the question's words in the row, of the best row's share
    "first_by_words": 4.831,  # 1 / (5 + rank) by BM25, times 10 / terms where the question has more than 10
    "entities": 0.550,  # idf share of the question's names, titles and numbers in the row
    # Meaning
    "meaning": 0.201,  # z-score of the cosine
    "apart": 0.453,  # z-score of the cosine after the candidates' mean vector is taken off
    "first_by_meaning": 3.392,  # 1 / (5 + rank) by cosine
    "like_the_best": -0.017,  # cosine with the mean of the five best rows by words and meaning
    "like_its_peers": 0.177,  # z-score of the mean score of the six most similar among the 64 best rows
    # What was said around it
    "before": 0.304,  # "meaning" of the row before it, times dialogue
    "after": 0.211,  # "meaning" of the row behind it, times dialogue
    "before_last": 0.284,  # "meaning" of the row two before it, times dialogue
    "session": -0.102,  # z-score of the mean of its session's five best rows, in dialogues
    # Who said it
    "speaker": 1.472,  # 1 where the one speaker that the question names said it, -1 where another did
    "you_said": 0.347,  # 1 for the assistant, -1 for the user, where it asks what the assistant said
    "i_did": 0.742,  # 1 for the user, -1 for the assistant, where the user asks about himself
    # What kind of thing it says
    "length": 0.324,  # ln(1 + terms), of at most 60, times dialogue; 0 for tool outputs
    "small_talk": -1.728,  # a greeting, thanks, or at most three terms
    "asks": -1.058,  # it ends by asking, times dialogue
    "tells_number": 0.307,  # it has a number, where the question asks how many
    "tells_time": 1.442,  # it has a date or "yesterday", where the question asks when
    # When
    "in_time": 3.068,  # said in a time that the question names, or the day after
    "later": -2.366,  # said more than a day after the question is asked
    "recent": 0.225,  # place in time among the candidates, 0 oldest to 1 newest
    "said_again": -0.009,  # share of what it says of the question that a later row says as well
}
"""What one unit of each feature is worth."""

PRIORS: Mapping[str, float] = {
    "pinned": 0.5,  # kept by hand
    "importance": 1.0,  # times importance - 0.5, where somebody judged it
    "confidence": 0.5,  # times confidence - 0.5, of knowledge
}
"""What a record is worth whatever is asked; chosen, not learned: at most half a unit, a tie-breaker."""

CONFIDENCE: Mapping[str, float] = {
    "best": -0.330,  # the highest score
    "lead": -0.092,  # how far it is ahead of the mean of the best ten
    "cover": -2.059,  # idf share of the question's words in the best row
    "meaning": -0.064,  # "apart" of the best row
    "of_the_named": -0.670,  # lead of the named speaker's best row over the others' if speakers did not count
    "named": 1.273,  # the question names exactly one speaker
    "constant": 1.967,
}
"""The logit of "nothing relevant", by `jiyi.long_term.ranking.signals`."""
