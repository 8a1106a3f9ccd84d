"""The ranking's weights: one table, learned, the same for Chinese and English.

Made by ``python bench/learn_weights.py FILE... --write``: a softmax over the candidates of each
question (listwise cross-entropy: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to
Listwise Approach"). How they do on conversations they were not learned from stands in
docs/recall-log.md. Z-scores are over the candidates of one question; "dialogue" is the share of
neighbours in a session that another one spoke, 0 in one person's notes.
"""

from collections.abc import Mapping

from jiyi.long_term.recall.features import Feature

__all__ = ["CONFIDENCE", "PRIORS", "REPLACES", "UNANSWERED", "WEIGHTS"]

WEIGHTS: Mapping[Feature, float] = {
    # Words
    "words": -0.234,  # z-score of BM25 over the row's own words
    "window": 0.621,  # z-score of BM25 with words borrowed from the two turns before and behind
    "cover": 0.032,  # idf share of the question's words in the row, of the best row's share
    "first_by_words": 4.790,  # 1 / (5 + rank) by BM25, times 10 / terms where the question has more than 10
    "entities": 0.548,  # idf share of the question's names, titles and numbers in the row
    # Meaning
    "meaning": 0.204,  # z-score of the cosine
    "apart": 0.455,  # z-score of the cosine after the candidates' mean vector is taken off
    "first_by_meaning": 3.283,  # 1 / (5 + rank) by cosine
    "like_the_best": -0.015,  # cosine with the mean of the five best rows by words and meaning
    "like_its_peers": 0.177,  # z-score of the mean score of the six most similar among the 64 best rows
    # What was said around it
    "before": 0.304,  # "meaning" of the row before it, times dialogue
    "after": 0.211,  # "meaning" of the row behind it, times dialogue
    "before_last": 0.284,  # "meaning" of the row two before it, times dialogue
    "session": -0.101,  # z-score of the mean of its session's five best rows, in dialogues
    # Who said it
    "speaker": 1.472,  # 1 where the one speaker that the question names said it, -1 where another did
    "you_said": 0.352,  # 1 for the assistant, -1 for the user, where it asks what the assistant said
    "i_did": 0.741,  # 1 for the user, -1 for the assistant, where the user asks about himself
    # What kind of thing it says
    "length": 0.324,  # ln(1 + terms), of at most 60, times dialogue; 0 for tool outputs
    "small_talk": -1.730,  # a greeting, thanks, or at most three terms
    "asks": -1.056,  # it ends by asking, times dialogue
    "tells_number": 0.304,  # it has a number, where the question asks how many
    "tells_time": 1.444,  # it has a date or "yesterday", where the question asks when
    # When
    "in_time": 3.070,  # said in a time that the question names, or the day after
    "later": -2.362,  # said more than a day after the question is asked
    "recent": 0.228,  # place in time among the candidates, 0 oldest to 1 newest
    "said_again": -0.013,  # share of what it says of the question that a later row says as well
}
"""What one unit of each feature is worth."""

PRIORS: Mapping[str, float] = {
    "pinned": 0.5,  # kept by hand
    "importance": 1.0,  # times importance - 0.5, where somebody judged it
    "confidence": 0.5,  # times confidence - 0.5, of knowledge
    "in_force": 0.001,  # how far what took the place of another message is put above it
}
"""What a record is worth whatever is asked; chosen, not learned: at most half a unit, a tie-breaker."""

CONFIDENCE: Mapping[str, float] = {
    "best": -0.316,  # the highest score
    "lead": -0.116,  # how far it is ahead of the mean of the best ten
    "cover": -2.024,  # idf share of the question's words in the best row
    "meaning": -0.096,  # "apart" of the best row
    "of_the_named": -0.671,  # lead of the named speaker's best row over the others' if speakers did not count
    "named": 1.247,  # the question names exactly one speaker
    "constant": 2.007,
}
"""The logit of "nothing relevant", by `jiyi.long_term.recall.ranking.signals`."""

REPLACES: Mapping[str, float] = {
    # j was said later than i, both by the time asked about
    "later: it is": -0.260,  # j was said behind i
    "later: changes": 1.643,  # j says that something changes
    "later: corrects": 1.497,  # j says that something was wrong
    "later: retracts": 0.836,  # j takes something back
    "later: reverts": 2.774,  # j goes back to what was before
    "later: asks": -2.174,  # j mostly asks
    "later: reports": -2.778,  # j says what a document or hearsay says
    "later: supposes": -1.361,  # j supposes
    "later: plans": -1.042,  # j says what will be
    "later: holds for a while": 3.270,  # j is temporary and covers the time asked about
    "later: held for a while": -5.342,  # j is temporary and does not
    "later: of an assistant": -0.867,  # j was said by the assistant
    "later: of a tool": 4.046,  # j is a tool's output
    "later: place": -2.537,  # place of j in the ranking, 0 first to 1 eleventh
    "later: meaning": -0.481,  # "apart" of j
    "later: of a time gone by": -0.509,  # the question is about a time gone by
    "later: other is retracted": 2.310,  # share of i's words of the question that a later session takes back
    "later: other is no statement": -1.368,  # i asks, reports or supposes
    "later: other held for a while": -1.094,  # i is temporary and does not cover the time asked about
    "later: other reverts": -1.747,  # i goes back to what was before
    "later: shared words": 2.264,  # idf of the question's words in both, of the most that a message has
    "later: same speaker": -0.105,  # both were said by the same one
    "later: same session": -2.409,  # both were said in the same session
    "later: lag": -0.175,  # points of i before j
    "later: names": 0.341,  # "entities" of j less that of i
    # j was said earlier than i
    "earlier: it is": -1.952,  # j was said before i
    "earlier: is no statement": -0.262,  # j asks, reports or supposes
    "earlier: place": -2.281,  # place of j
    "earlier: other asks": 3.084,  # i mostly asks
    "earlier: other reports": 3.554,  # i says what a document or hearsay says
    "earlier: other plans": -1.144,  # i says what will be
    "earlier: other held for a while": 3.193,  # i is temporary and does not cover the time asked about
    "earlier: other holds for a while": -2.249,  # i is temporary and covers it
    "earlier: other of an assistant": -1.192,  # i was said by the assistant
    "earlier: other of a tool": -2.811,  # i is a tool's output
    "earlier: other is retracted": -0.786,  # as above
    "earlier: same session": -1.605,  # both were said in the same session
    "earlier: shared words": -0.890,  # as above
    # i was said only after the time asked about
    "after: other is": 4.005,  # i was said after the time gone by that is asked about, j was not
    "after: meaning": -0.375,  # "apart" of j
    "after: place": -4.880,  # place of j
    "after: lag": -0.465,  # points of i before j
}
"""The logit of "message j belongs above message i", by `recall.outdated`; yes or no is 1 or 0."""

UNANSWERED: Mapping[str, float] = {
    "lacks": 3.906,  # what is asked for (a time, a number, a name) is not in the messages that fit
    "yes_or_no": -3.070,  # yes or no would answer it
    "asks": -0.249,  # the message that fits best asks or supposes
    "taken_back": 5.373,  # what fits best was retracted later
    "unheard_of": 6.225,  # an identifier of the question is nowhere
    "any_answer": 1.419,  # anything might answer it
    "constant": -2.117,
}
"""The logit of "the point asked for is missing", by `jiyi.long_term.recall.answerable.answer_signs`."""
