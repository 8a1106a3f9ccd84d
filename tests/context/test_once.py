"""What history and summary say already is not paid for a second time."""

from jiyi.context import Materials, build_window
from jiyi.records import Block, Budget, Message
from jiyi.text import counter_for

PORT = "pay-gw listens on port 9443 from today on"
HOST = "the new host for it is app-03 in rack 12"
SAID = "its words stand in the window already"
QUESTION = Message(role="user", content="which port?", id="now")


def summary(*lines):
    return Block(section="summary", kind="summary", text="\n".join(f"- {line}" for line in lines), tokens=0)


def recalled(text, id_="m1", **fields):
    return Block(section="recalled", text=text, tokens=0, source_id=id_, speaker="Ana", **fields)


def fact(text, **fields):
    return Block(section="knowledge", kind="fact", text=text, tokens=0, source_id="f1", **fields)


def built(blocks, **parts):
    materials = Materials(current=QUESTION, blocks=blocks, **parts)
    return build_window(materials, Budget(max_input_tokens=900), counter=counter_for(), language="en")


def left_out(made):
    return {item.id: item.reason for item in made.report.left_out}


def test_a_message_copied_into_the_history_stays_out_but_short_lines_prove_nothing():
    said = Message(role="user", content=f"As I wrote:  {PORT}", id="m2")
    assert left_out(built([recalled(PORT)], history=[said])) == {"m1": SAID}
    as_history = {"m2": "already in the window as history"}
    assert left_out(built([recalled("x", "m2")], history=[said])) == as_history
    said = Message(role="user", content="ok, yes, ok", id="m2")
    assert left_out(built([recalled("ok")], history=[said])) == {}


def test_lines_that_stand_in_the_summary_are_left_out_of_a_message_which_may_be_all_of_it():
    made = built([recalled(f"{PORT}\nok")], summary=summary("Ana: " + PORT, HOST))
    assert (left_out(made), made.markdown.count(PORT)) == ({"m1": SAID}, 1)
    made = built([recalled(f"{PORT}\n{HOST}\nthe deadline is Friday noon")], summary=summary(PORT, HOST))
    assert "> [Ana] …\n> the deadline is Friday noon" in made.markdown
    assert made.markdown.count(PORT) == made.markdown.count(HOST) == 1


def test_sentences_that_stand_in_the_summary_are_left_out_of_a_longer_line():
    said = recalled(f"Good morning. {PORT}. {HOST}. It is 10 U.")
    made = built([said], summary=summary(f"Ana: {PORT}. {HOST}."))
    assert "> [Ana] Good morning. … It is 10 U." in made.markdown
    assert made.markdown.count(PORT) == made.markdown.count(HOST) == 1
    said = recalled("网关的回调端口改成了九千。明天下午两点开始迁移数据库。")
    made = built([said], summary=summary("网关的回调端口改成了九千。"))
    assert "> [Ana] … 明天下午两点开始迁移数据库。" in made.markdown
    made = built([recalled(f"{PORT}. Not 8443.")], summary=summary(f"{PORT}."))
    assert "> [Ana] … Not 8443." in made.markdown


def test_code_and_data_are_not_cut():
    for text in (f"```\n# x. {PORT}. y\n```", f'{{"note": "New. {PORT}. Old."}}'):
        assert text.splitlines()[-1] in built([recalled(text)], summary=summary(f"{PORT}.")).markdown


def test_a_fact_is_not_repeated_where_its_source_or_its_words_stand():
    said = Message(role="user", content=PORT, id="m2")
    by_source = built([fact("pay-gw · port: 9443", sources=("m0", "m2"))], history=[said])
    by_words = built([fact(PORT)], history=[said])
    for made in (by_source, by_words, built([fact("pay-gw · port: 9443", sources=("now",))])):
        assert left_out(made) == {"f1": SAID}
    assert "9443" in built([fact("pay-gw · port: 9443", sources=("elsewhere",))], history=[said]).markdown


def test_lessons_and_experiences_stay_whole():
    text = f"**ports**\n{PORT}\n{HOST}"
    lesson = Block(section="knowledge", kind="knowledge", text=text, tokens=0, source_id="k")
    assert built([lesson], summary=summary(PORT)).markdown.count(PORT) == 2
