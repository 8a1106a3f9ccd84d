"""Tests of verbs that cannot be done over HTTP, and why."""

_MONITOR = "what a server watches is in its own figures; the memory here has no monitor"
_TYPES = "a value of a wrong type is an InputError of the request, in words of its own"

NOT_AT_A_SERVER = {
    "test_a_message_whose_facts_fail_is_not_saved": "the server keeps to itself what broke in it",
    "test_a_reply_is_handed_over_under_the_session_id_of_the_verbs": _MONITOR,
    "test_a_slip_costs_no_memory": _TYPES,
    "test_a_window_takes_an_extract_while_the_model_writes": _MONITOR,
    "test_as_many_episodes_and_knowledge_as_asked_for": _TYPES,
    "test_closing_keeps_what_is_in_hand_and_leaves_the_rest_to_later": "close leaves the server as it is",
    "test_maintenance_tells_how_far_it_is_and_a_dry_run_changes_nothing": "progress comes now and then",
    "test_moments_of_any_zone_are_fine_and_naive_ones_are_refused": _TYPES,
    "test_only_a_new_status_is_news_to_the_monitor": _MONITOR,
    "test_recalled_texts_can_be_made_smaller_or_given": "a compressor is code and cannot travel",
    "test_relevance_is_the_probability_of_an_answer_and_falls_with_the_score": _TYPES,
    "test_the_monitor_sees_windows_replies_and_summaries": _MONITOR,
    "test_what_cannot_be_kept_is_refused_and_nothing_is_written": _TYPES,
    "test_what_cannot_be_saved_changes_nothing": _TYPES,
    "test_wrong_and_foreign_cursors_are_refused": _TYPES,
}
