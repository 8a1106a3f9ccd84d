"""What people plainly type to an assistant, sentence by sentence, and whom a pronoun in it means."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from jiyi.extraction import Statement, extract
from jiyi.records import single_valued

SAID_AT = datetime(2026, 6, 10, 9, 30, tzinfo=UTC)


def read(text: str, context: Sequence[str] = ()) -> list[Statement]:
    return extract(text, speaker="Ana", role="user", said_at=SAID_AT, zone=UTC, context=context)


def named(text: str, context: Sequence[str] = ()) -> set[tuple[str, str, str]]:
    """Return what is said of points that have a name."""
    found = read(text, context)
    return {(one.subject, one.predicate, one.object) for one in found if single_valued(one.predicate)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I'm Priya, product manager at a small fintech in Pune",
            [("name", "Priya"), ("job", "product manager at a small fintech")],
        ),
        ("I'm Tom, electrician, been doing it for 12 years", [("name", "Tom"), ("job", "electrician")]),
        ("I'm Ola, a welder from Gdansk", [("name", "Ola"), ("job", "welder")]),
        ("im a freelance translator", [("job", "freelance translator")]),
        ("just got a new job as a data analyst at Lidl", [("job", "data analyst"), ("works at", "Lidl")]),
        ("I got promoted to senior engineer last month", [("job", "senior engineer")]),
        ("promoted! head of product from next month", [("job", "head of product")]),
        ("new place is in Baner", [("lives in", "Baner")]),
        ("we're renting a two-bed in Hackney", [("lives in", "Hackney")]),
        ("I'm based in Pune", [("lives in", "Pune")]),
        ("my new address is 14 Mill Lane", [("address", "14 Mill Lane")]),
        ("landlord put the rent up to 1250", [("rent", "1250")]),
        ("my landlord is Mr Becker", [("landlord", "Mr Becker")]),
        ("we have a son, Leo", [("son", "Leo")]),
        ("we got a puppy, her name is Biscuit", [("puppy", "Biscuit")]),
        ("I got a cat, Olive", [("cat", "Olive")]),
        ("our dog Rex eats only wet food", [("dog", "Rex")]),
        ("i can't have gluten", [("diet", "can't have gluten")]),
        ("I don't do dairy", [("diet", "don't do dairy")]),
        ("i don't eat pork", [("diet", "don't eat pork")]),
        ("I can't do spicy food", [("diet", "can't do spicy food")]),
        ("no nuts for me", [("diet", "no nuts")]),
        ("i'm allergic to cats and dust", [("allergic to", "cats and dust")]),
        ("I have asthma", [("condition", "asthma")]),
        ("I've got high blood pressure", [("condition", "high blood pressure")]),
        ("Our anniversary is 3 May", [("anniversary", "3 May")]),
        ("my shift starts at 6", [("shift", "6")]),
        ("我是李薇，在一家小公司做产品经理", [("姓名", "李薇"), ("职业", "产品经理")]),
        ("刚入职字节，做数据分析", [("工作单位", "字节")]),
        ("上个月升了高级工程师", [("职业", "高级工程师")]),
        ("我自由职业，做翻译", [("职业", "翻译")]),
        ("搬到新家了，在望京", [("住址", "望京")]),
        ("我的新地址是幸福路14号", [("地址", "幸福路14号")]),
        ("房东把房租涨到1250了", [("房租", "1250")]),
        ("养了只小狗，叫饼干", [("小狗", "饼干")]),
        ("我不能吃花生", [("饮食", "不能吃花生")]),
        ("我吃不了辣", [("饮食", "吃不了辣")]),
        ("我碰不了海鲜", [("饮食", "碰不了海鲜")]),
        ("我不吃猪肉", [("饮食", "不吃猪肉")]),
        ("香菜我受不了", [("讨厌", "香菜")]),
        ("我对海鲜过敏", [("过敏", "海鲜")]),
        ("对了我对花生过敏", [("过敏", "花生")]),
        ("花生现在能吃一点了", []),
        ("最喜欢的餐厅是老张面馆", [("最喜欢的餐厅", "老张面馆")]),
        ("我有哮喘", [("病症", "哮喘")]),
        ("血压135/85", [("血压", "135/85")]),
        ("今年预算40万", [("预算", "40万")]),
        ("我们的结婚纪念日是5月3号", [("结婚纪念日", "5月3号")]),
    ],
)
def test_what_is_said_of_the_speaker(text, expected):
    assert named(text) == {("Ana", *one) for one in expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("my husband Marek is a firefighter", [("Ana", "husband", "Marek"), ("Marek", "job", "firefighter")]),
        ("my dad works as a bus driver", [("Ana's dad", "job", "bus driver")]),
        ("my mum can't eat dairy", [("Ana's mum", "diet", "can't eat dairy")]),
        ("we have a son, Leo, he's 4", [("Ana", "son", "Leo"), ("Leo", "age", "4")]),
        ("my cat Miso is 7", [("Ana", "cat", "Miso"), ("Miso", "age", "7")]),
        ("standup is at 9:45 every day", [("standup", "time", "9:45 every day")]),
        ("api-gw moved to port 7443", [("api-gw", "port", "7443")]),
        ("prod runs on 8080", [("prod", "value", "8080")]),
        ("the repo lives at gitlab.test/ops/relay", []),
        ("jira is at tickets.test/board", [("jira", "address", "tickets.test/board")]),
        ("Nadia is in charge of the billing service", [("billing service", "owner", "Nadia")]),
        ("Deadline for the report is 30 June", [("report", "Deadline", "30 June")]),
        ("my sister's flight lands at 18:40", [("Ana's sister", "flight", "18:40")]),
        ("我老公马克是消防员", [("Ana", "老公", "马克"), ("马克", "职业", "消防员")]),
        ("儿子乐乐今年4岁", [("乐乐", "年龄", "4岁")]),
        ("我家猫味噌7岁了", [("味噌", "年龄", "7岁")]),
        ("staging 挪到 9191 了", [("staging", "数值", "9191")]),
        ("生产 8080，预发 9191", [("生产", "数值", "8080"), ("预发", "数值", "9191")]),
        ("账单服务归纳迪娅管", [("账单服务", "负责人", "纳迪娅")]),
    ],
)
def test_what_is_said_of_others_and_of_things(text, expected):
    assert named(text) == set(expected)


@pytest.mark.parametrize(
    ("context", "text", "expected"),
    [
        (["my sister Meera is visiting"], "her birthday is coming up, it's on 14 August",
         [("Meera", "birthday", "14 August")]),
        (["my sister Meera came with my brother Arjun"], "she works at Siemens",
         [("Meera", "works at", "Siemens")]),
        (["my sister Meera came with my brother Arjun"], "he works at Siemens",
         [("Arjun", "works at", "Siemens")]),
        (["my friend Karim is here."], "he's allergic to eggs", [("Karim", "allergic to", "eggs")]),
        (["my brother has moved out"], "he works at Siemens", [("Ana's brother", "works at", "Siemens")]),
        (["my sister Meera is visiting"], "he works at Siemens", []),
        (["we met at Siemens in Leeds"], "she works at Bupa", []),
        ([], "her birthday is coming up, it's on 14 August", []),
    ],
)  # fmt: skip
def test_a_pronoun_means_the_last_person_it_can(context, text, expected):
    assert named(text, context) == set(expected)


@pytest.mark.parametrize(
    "text",
    [
        "he runs a cafe in Mumbai",
        "she is vegan",
        "he works at Siemens",
        "it's on the 9th",
        "她吃素",
        "他在西门子上班",
        "是9号",
        "I have a question",
        "we don't have milk",
        "I can't have it both ways",
        "I'm a big tea drinker",
        "I'm a mother of two",
        "no idea, ask for me",
        "我吃不了苦",
        "我有个问题",
    ],
)
def test_what_gives_no_point_of_anybody(text):
    assert not named(text)
    assert not [one for one in read(text) if text.startswith(("he ", "she ", "他", "她"))]


def test_a_new_job_holds_from_its_day():
    (one,) = read("promoted! head of product from next month")
    assert one.valid_from == datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["我们打算明年搬去上海", "我们准备下个月搬到杭州", "We're planning to move to Oslo in July"]
)
def test_what_is_only_intended_is_a_plan(text: str) -> None:
    assert [one.category for one in read(text)] == ["plan"]


def test_a_value_is_not_of_what_is_named_after_it() -> None:
    found = read("我们换了芯片，现在用 GD32 了，波特率也改成 921600")
    assert [(one.object, one.subject) for one in found] == [("921600", "波特率"), ("GD32", "Ana")]


def test_a_new_value_is_of_the_point_that_was_just_named() -> None:
    assert ("Ana", "密码", "abc12345") in named("密码我换了，现在是 abc12345")
    assert ("password", "value", "abc12345") in named("I changed the password, now it's abc12345")
