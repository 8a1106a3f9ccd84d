"""What phrases mean, said on Wednesday, 10 May 2023: all of a line mean the same days, in both languages.

"=" is exact, "~" is not; the last day is included; "now" is the moment of speaking.
"""

import re
from datetime import UTC, date, datetime, timedelta

import pytest

from jiyi.text import find_dates, has_date

NOW = datetime(2023, 5, 10, 15, 0, tzinfo=UTC)
HAN = re.compile(r"[\u4e00-\u9fff]")

DAYS = """
2023-05-10 = today | tonight | this morning | earlier today | 3 hours ago | half an hour ago
2023-05-10 = ten minutes ago
2023-05-10 = 三小時前 | 今天 | 今日 | 今晚 | 今早 | 三小时前 | 半小时前 | 3 个小时前 | 十分钟前 | 今天下午三点
2023-05-09 = yesterday | last night | yesterday evening | a day ago | 1 day ago | last Tuesday
2023-05-09 = this past Tuesday
2023-05-09 = 昨天 | 昨晚 | 昨日 | 昨夜 | 昨天下午三点 | 一天前 | 1天前 | 一日前 | 这周二 | 本周二
2023-05-08 = the day before yesterday | two days ago | 2 days ago | 前天 | 前天晚上 | 两天前 | 2 天前
2023-05-08 = 兩天前
2023-05-07 = three days ago | 3 nights ago | last Sunday | Sunday last week | 大前天 | 三天前 | 3天之前
2023-05-07 = 上周日
2023-05-07 = 上周天 | 上个星期天 | 上个星期日 | 上礼拜天 | 上週日
2023-05-11 = tomorrow | tmrw | in one day | this Thursday | 明天 | 明早 | 明晚 | 明日 | 一天后 | 这周四
2023-05-12 = the day after tomorrow | in two days | this Friday | this coming Friday | 后天 | 两天后
2023-05-12 = 2天以后 | 这周五
2023-05-13 = in three days | 3 days from now | this Saturday | 大后天 | 三天后 | 3天之后 | 这个星期六
2023-05-13 = 本周六
2023-04-20 = twenty days ago | 20 days ago | 二十天前 | 20天前
2023-05-05 = last Friday | this past Friday | last Fri. | Friday last week | Friday of last week
2023-05-05 = last week's Friday
2023-05-05 = 上周五 | 上个星期五 | 上礼拜五 | 上週五 | 上个礼拜五 | 上周的周五
2023-05-05 ~ Friday | on Friday | on Fri | Friday morning | 周五 | 星期五 | 礼拜五 | 周五上午
2023-05-10 ~ Wednesday | on Wednesday | on Wed | 周三 | 星期三 | 礼拜三
2023-05-07 ~ Sunday | on Sunday night | 周日 | 星期天 | 星期日 | 礼拜天
2023-05-12 ~ by Friday | until Friday | 周五前 | 周五之前
2023-05-02 = Tuesday last week | last week on Tuesday | 上周二 | 上星期二
2023-05-03 = last Wednesday | Wednesday last week | 上周三
2023-05-19 = next Friday | Friday next week | 下周五 | 下个星期五 | 下礼拜五
2023-05-15 = next Monday | 下周一 | 下个礼拜一
2023-04-28 = the Friday before last | two Fridays ago | 上上周五 | 上上个星期五
2023-01-27 ~ Friday the 27th
2023-05-07 = 2023-05-07 | 2023/5/7 | 2023.5.7 | 20230507 | 05/07/2023 | 5/7/23 | 05-07-2023 | 7.5.2023
2023-05-07 = 7 May 2023 | 7th May, 2023 | 7th of May 2023 | the 7th of May, 2023 | the seventh of May 2023
2023-05-07 = May 7 2023 | May 7, 2023 | May 7th, 2023 | may 7th 2023 | Sunday, May 7, 2023 | Sun, 7 May 2023
2023-05-07 = 07-May-2023 | 07/May/2023:10:00:00 | Sun May  7 10:00:00 2023 | 2023-05-07T10:00:00Z
2023-05-07 = May 7 this year
2023-05-07 = 2023-05-07 10:00:00,123 | log_2023-05-07.txt | at=2023-05-07 | 7 May '23
2023-05-07 = on the 7th of this month
2023-05-07 = 2023年5月7日 | 2023年5月7号 | 2023 年 5 月 7 日 | ２０２３年５月７日 | 2023-05-07（周日）
2023-05-07 = 二〇二三年五月七日 | 二零二三年五月七号 | 23年5月7日 | 今年5月7日 | 本月7号 | 这个月7日
2023-05-07 = 2023年5月7日星期日
2023-12-15 = 15/12/2023 | 12/15/2023 | 15.12.2023 | December 15th, 2023 | 2023年12月15日 | 今年十二月十五日
2023-05-07 ~ May 7 | May 7th | May the 7th | 7 May | 7th of May | on 5/7
2023-05-07 ~ the seventh of May | on May 7th at 3 pm | on the 7th | Sunday 7 May | 5月7日 | 5月7号
2023-05-07 ~ 五月七日 | 5 月 7 日
2023-05-07 ~ 五月七号下午三点 | 5月7日（周日） | 7号那天 | 7号晚上 | 5月7，晴
2022-12-31 ~ Dec 31 | Dec. 31st | 31 December | 12月31日 | 十二月三十一号
2024-06-01 = June 1 next year | 明年6月1日 | 明年六月一号
2023-06-01 = next June 1 | upcoming June 1st
2022-05-10 = 去年今天 | 去年的今天
2020-02-29 ~ February 29 | 29 February | 2月29日 | 二月二十九号
2023-06-08 = the day before 9 June 2023 | one day before 9 June 2023 | 2023年6月9日前一天
2023-06-08 = 2023年6月9日的前一天
2023-06-10 = the day after 9 June 2023 | 2023年6月9日第二天 | 2023年6月9日后一天 | 2023年6月9日的次日
2023-06-07 = two days before 9 June 2023 | 2023年6月9日两天前
2023-07-14 = the Friday before 15 July 2023 | Friday before July 15, 2023 | 2023年7月15日之前的周五
2023-07-21 = the Friday after 15 July 2023 | 2023年7月15日后的周五
2023-01-23 ~ the day after Chinese New Year | 春节第二天 | 春节后一天
2022-12-31 = the last day of 2022 | 2022年的最后一天 | 2022年最后一天
2022-05-02 = the first Monday of May 2022 | 2022年5月第一个周一 | 2022年五月的第一个星期一
"""

LONGER = """
2023-05-08..2023-05-14 = this week | later this week | 这周 | 本周 | 这个星期 | 这个礼拜 | 这一周
2023-05-01..2023-05-07 = last week | a week ago | 1 week ago | 上周 | 上个星期 | 上礼拜 | 上一周 | 一周前
2023-05-01..2023-05-07 = 一个星期前
2023-04-24..2023-04-30 = the week before last | two weeks ago | a fortnight ago | 上上周 | 两周前 | 2 周前
2023-04-24..2023-04-30 = 两个星期前 | 两个礼拜前 | 上上个礼拜 | 上上個星期
2023-05-15..2023-05-21 = next week | in a week | a week from now | 下周 | 下个星期 | 一周后 | 下周一起去
2023-05-15..2023-05-21 = 下周天气
2023-05-22..2023-05-28 = the week after next | in two weeks | in two weeks' time | 下下周 | 两周后
2023-05-22..2023-05-28 = 两个星期之后
2023-05-13..2023-05-14 = this weekend | 这周末 | 本周末 | 这个周末
2023-05-06..2023-05-07 = last weekend | this past weekend | 上周末 | 上个周末 | 上个星期的周末
2023-05-06..2023-05-07 ~ over the weekend | at the weekend | 周末 | 整个周末
2023-04-29..2023-04-30 = the weekend before last | two weekends ago | 上上周末
2023-05-20..2023-05-21 = next weekend | 下周末 | 下个周末
2023-05-01..2023-05-31 = May 2023 | May of 2023 | May, 2023 | May this year | this month
2023-05-01..2023-05-31 = the month of May 2023
2023-05-01..2023-05-31 = 2023-05 | 2023/05 | 2023年5月 | 2023年5月份 | 二〇二三年五月 | 23年5月 | 今年五月
2023-05-01..2023-05-31 = 这个月 | 本月
2023-05-01..2023-05-31 ~ in May | during May | in may | 五月 | 五月份 | 5月 | 在5月里
2022-06-01..2022-06-30 ~ in June | 六月 | 6月份 | by June
2022-10-01..2022-10-31 ~ October was cold | in Oct | in October | 十月 | 10月份
2022-05-01..2022-05-31 = last May | May last year | 去年五月 | 去年5月份 | 去年的五月
2023-04-01..2023-04-30 = last month | a month ago | last April | 上个月 | 上月 | 一个月前 | 1 个月前
2023-04-01..2023-04-30 = 上一个月
2023-03-01..2023-03-31 = two months ago | the month before last | 两个月前 | 上上个月 | 2个月前
2023-06-01..2023-06-30 = next month | in a month | next June | 下个月 | 下月 | 一个月后 | 一个月之后
2022-01-01..2022-12-31 = in 2022 | the year 2022 | last year | a year ago | the year before 2023 | 2022年
2022-01-01..2022-12-31 = 去年 | 一年前
2021-01-01..2021-12-31 = the year before last | two years ago | 前年 | 两年前 | 2021年 | 二〇二一年
2020-01-01..2020-12-31 = three years ago | 3 years ago | 大前年 | 三年前
2023-01-01..2023-12-31 = this year | earlier this year | in 2023 | 今年 | 2023年 | 本年
2024-01-01..2024-12-31 = next year | in a year | 明年 | 一年后
2025-01-01..2025-12-31 = in two years | two years from now | 后年 | 两年后
2023-01-01..2023-03-31 = Q1 2023 | 2023 Q1 | 2023Q1 | the first quarter of 2023 | last quarter | 上季度
2023-01-01..2023-03-31 = 上个季度
2023-01-01..2023-03-31 = 2023年第一季度 | 今年一季度 | 2023年Q1
2022-07-01..2022-09-30 ~ in Q3 | 第三季度 | 三季度 | Q3的目标
2023-04-01..2023-06-30 = this quarter | 这个季度 | 本季度
2022-07-01..2022-12-31 = the second half of 2022 | the second half of last year | 2022年下半年 | 去年下半年
2023-01-01..2023-06-30 ~ 上半年
2022-05-01..2022-05-15 = the first half of May 2022
2022-06-01..2022-08-31 = summer 2022 | summer of 2022 | last summer | summer last year | Summer '22
2022-06-01..2022-08-31 = this past summer
2022-06-01..2022-08-31 = 2022年夏天 | 去年夏天 | 去年夏季 | 去夏 | 上个夏天 | 2022年夏
2022-06-01..2022-08-31 ~ over the summer
2022-12-01..2023-02-28 = winter 2022 | last winter | the winter of 2022 | 去年冬天 | 2022年冬天
2023-06-01..2023-08-31 = this summer | next summer | summer 2023 | 今年夏天 | 这个夏天 | 今夏
2022-09-01..2022-11-30 = last fall | autumn of 2022 | fall 2022 | 去年秋天
2022-07-01..2022-08-31 = 去年暑假 | 2022年暑假
2022-07-01..2022-08-31 ~ 暑假
2023-04-21..2023-04-30 ~ end of last month | late last month | late April 2023 | the end of April
2023-04-21..2023-04-30 ~ 上个月底 | 上月底 | 2023年4月底 | 4月下旬 | 四月底 | 上个月末
2023-05-01..2023-05-10 ~ early May | the beginning of May 2023 | the start of the month | 五月初 | 月初
2023-05-01..2023-05-10 ~ 5月上旬 | 本月初
2023-05-11..2023-05-20 ~ mid-May | mid May | the middle of May | 5月中旬 | 五月中旬
2023-05-21..2023-05-31 ~ the end of the month | late May 2023 | 月底 | 这个月底 | 月末
2022-10-01..2022-12-31 ~ the end of 2022 | late 2022 | the end of last year | 2022年底 | 去年底 | 去年年底
2022-10-01..2022-12-31 ~ 2022年末
2023-01-01..2023-03-31 ~ early 2023 | the beginning of this year | the start of the year | 今年年初 | 年初
2023-01-01..2023-03-31 ~ 2023年初
2023-06-02..2023-06-08 = the week before 9 June 2023 | 2023年6月9日前一周 | 2023年6月9日的前一周
2023-06-02..2023-06-08 = 2023年6月9日之前一周
2023-06-10..2023-06-16 = the week after 9 June 2023 | 2023年6月9日后一周
2023-06-03..2023-06-04 = the weekend before 9 June 2023 | 2023年6月9日之前的周末
2023-06-10..2023-06-11 = the weekend after 9 June 2023 | 2023年6月9日后的周末
2023-06-07..2023-06-08 = the two days before 9 June 2023 | 2023年6月9日前两天
2023-06-05..2023-06-11 = the week of 9 June 2023 | 2023年6月9日那周 | 2023年6月9日那一周
2023-06-05..2023-06-11 = 2023 年 6 月 9 日所在的那一周
2023-05-08..2023-05-14 ~ a week after 3 May | 5月3日一周后
2023-04-24..2023-04-30 = the week before last week
2022-12-18..2022-12-24 ~ the week before Christmas | 圣诞节前一周
2023-05-01..2023-05-07 = the first week of May 2023 | 2023年5月的第一周 | 2023年五月第一周
2022-05-25..2022-05-31 = the last week of May 2022 | 2022年5月最后一周
2023-05-01..2023-05-03 = May 1-3, 2023 | 1-3 May 2023 | May 1 to 3, 2023 | from May 1 to May 3, 2023
2023-05-01..2023-05-03 = May 1 – May 3, 2023
2023-05-01..2023-05-03 = between 1 May 2023 and 3 May 2023 | 2023-05-01 to 2023-05-03
2023-05-01..2023-05-03 = 2023-05-01～2023-05-03
2023-05-01..2023-05-03 = 2023年5月1日至3日 | 2023年5月1日到5月3日 | 2023年5月1-3日
2023-05-01..2023-05-03 = 2023年5月1号和5月3号之间
2023-05-01..2023-05-03 ~ May 1-3 | May 1st to 3rd | between May 1 and May 3 | 5月1日至3日 | 从5月1日到5月3日
2023-05-01..2023-05-03 ~ 5月1日—5月3日
2022-12-20..2023-01-05 ~ from December 20 to January 5 | 12月20日到1月5日 | 从12月20日至1月5日
2022-12-20..2023-01-05 = from December 20, 2022 to January 5 | from December 20 to January 5, 2023
2022-07-27..2022-08-07 ~ 7 月 27 到 8 月 7 这两周
2019-01-01..2021-12-31 = from 2019 to 2021 | between 2019 and 2021 | 2019-2021 | 2019年到2021年
2019-01-01..2021-12-31 = 2019年和2021年之间
2023-03-01..2023-05-31 ~ from March to May | 3月到5月 | 三到五月 | 3-5月 | 三月至五月
2023-05-08..2023-05-12 ~ from Monday to Friday | 周一到周五
2023-05-01..now ~ since May | ever since May | 自从五月 | 五月以来 | 自五月以来
2022-01-01..now = since 2022 | since last year | 去年以来 | 从去年开始 | 自2022年起 | from 2022 to now
2022-01-01..now = 从2022年到现在
2023-05-01..now = since last week | 上周以来 | 从上周起
2023-04-26..now = the past two weeks | the last two weeks | over the last 14 days | 过去两周 | 最近两周
2023-04-26..now = 近两周 | 过去的两周
2023-05-03..now = the past week | the last 7 days | the last week | 最近一周 | 过去七天 | 最近7天
2023-04-10..now = the past month | the last month | 过去一个月 | 最近一个月 | 近一个月
2022-05-10..now = the past year | the last 12 months | 过去一年 | 最近一年
2023-05-09..now = the past 24 hours | 过去24小时
2023-04-26..now ~ recently | lately | these days | 最近 | 近来 | 近期 | 近日 | 这段时间 | 这阵子
2023-05-03..now ~ the other day | the past few days | 前几天 | 这几天 | 最近几天
2023-05-03..2023-05-08 ~ a few days ago | 几天前
2023-05-07..2023-05-09 ~ a couple of days ago
2023-05-07..now ~ 前两天 | 这两天
2023-05-07..2023-05-08 ~ 两三天前
2023-04-21..2023-04-29 ~ 十几天前
2023-04-10..now ~ 前段时间 | 前阵子
2023-01-01..2023-02-28 ~ 三个多月前
2022-10-01..2022-12-31 ~ half a year ago | 半年前
2021-10-01..2021-12-31 ~ a year and a half ago | one and a half years ago | 一年半前
2023-04-22..2023-04-28 ~ half a month ago | 半个月前
2023-05-10..2023-05-13 = the next three days | 未来三天 | 接下来三天 | 今后三天
2023-05-10..2023-05-24 = the next two weeks | 未来两周
2023-05-10..2023-05-17 ~ the next few days | 过几天
"""

HOLIDAYS = """
2023-01-01 ~ New Year's Day | 元旦 | 元旦节
2022-12-31 ~ New Year's Eve
2023-02-14 ~ Valentine's Day | Valentine’s Day | 情人节
2023-03-08 ~ Women's Day | 妇女节 | 三八妇女节
2023-05-01 ~ International Workers' Day | May Day | 劳动节 | 五一 | 五一劳动节
2022-06-01 ~ Children's Day | 儿童节 | 六一 | 六一儿童节
2022-07-04 ~ the Fourth of July | Independence Day
2022-09-10 ~ Teachers' Day | 教师节 | Mid-Autumn Festival | 中秋节 | 中秋
2022-10-01 ~ China's National Day | 国庆节 | 国庆
2022-10-31 ~ Halloween | 万圣节
2022-11-11 ~ Singles' Day | 双十一 | 双11 | 雙十一
2022-11-24 ~ Thanksgiving | at Thanksgiving | 感恩节
2022-11-25 ~ Black Friday | 黑色星期五
2022-12-24 ~ Christmas Eve | 平安夜
2022-12-25 ~ Christmas | at Christmas | December 25 | 圣诞节 | 圣诞 | 12月25日
2023-01-21 ~ Chinese New Year's Eve | 除夕 | 大年三十
2023-01-22 ~ Chinese New Year | Lunar New Year | Spring Festival | 春节 | 大年初一 | 春節
2023-02-05 ~ Lantern Festival | 元宵节 | 正月十五
2023-02-22 ~ Ash Wednesday
2023-04-05 ~ Qingming Festival | 清明节 | 清明
2023-04-07 ~ Good Friday
2023-04-09 ~ Easter | Easter Sunday | 复活节
2022-05-08 ~ Mother's Day | 母亲节
2022-06-03 ~ Dragon Boat Festival | 端午节 | 端午
2022-06-19 ~ Father's Day | 父亲节
2022-08-04 ~ Qixi Festival | 七夕
2022-10-04 ~ Double Ninth Festival | 重阳节
2022-12-25 = Christmas 2022 | last Christmas | Christmas last year | 去年圣诞节 | 2022年圣诞节 | 上个圣诞节
2023-12-25 = next Christmas | this Christmas | 今年圣诞节 | 下个圣诞节
2022-06-03 = Dragon Boat Festival 2022 | 2022年端午节 | 去年端午
2024-02-10 = Chinese New Year 2024 | 明年春节
2022-10-01..2022-10-07 ~ 国庆假期 | 国庆期间 | 十一长假 | 2022年国庆假期
2023-01-21..2023-01-28 ~ 春节期间 | 春节假期
"""


def lines():
    for line in (DAYS.strip() + LONGER + HOLIDAYS.strip()).splitlines():
        span, sign, phrases = re.split(r" ([=~]) ", line.strip(), maxsplit=1)
        first, _, last = span.partition("..")
        for phrase in phrases.split(" | "):
            yield phrase, first, last or first, sign == "="


def midnight(day):
    return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC)


LINES = list(lines())


@pytest.mark.parametrize(("phrase", "first", "last", "exact"), LINES, ids=[line[0] for line in LINES])
@pytest.mark.parametrize("around", ["{}", "so: {}, I think", "听说{}，是吗"])
def test_phrases(phrase, first, last, exact, around):
    text = around.format(phrase)
    found = find_dates(text, NOW)
    end = NOW if last == "now" else midnight(last) + timedelta(days=1)
    assert (midnight(first), end, exact) in [(span.start, span.end, span.exact) for span in found]
    assert text[found[0].at :].startswith(found[0].text)
    assert has_date(text)


def test_there_are_enough_of_both_languages():
    chinese = {phrase for phrase, *_ in LINES if HAN.search(phrase)}
    english = {phrase for phrase, *_ in LINES} - chinese
    assert len(chinese) >= 250
    assert len(english) >= 250
