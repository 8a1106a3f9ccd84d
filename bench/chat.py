"""The long chat of one user, for benchmarks of search: messages, questions about them, vectors of both.

Everything follows from a seed, and a short chat is the beginning of a longer one. Sessions have
30 messages, two speakers and one topic each; one session is English, the next Chinese. Words are
drawn by Zipf's law (Mandelbrot's form) from common words and from rarer ones made of syllables
or characters, some of them the topic's own, so that a question's terms have about as many
occurrences as in recorded conversations: together one in six or seven messages.

Vectors have 384 numbers and length 1. They lie in a narrow cone, as those of embedding models
do: a direction common to all, that of the topic, and the message's own, whose deviations fall
from number to number (about 26 dimensions count).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate, count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DIMS", "Question", "Said", "ask", "chat", "vectors_of"]

DIMS = 384
_SESSION = 30  # messages
_TOPICS = 500
_OWN_WORDS = 40  # of a topic
_LENGTH = {"en": (6, 18), "zh": (7, 16)}  # words of a line, beside the topic's own
_VOCABULARY = 20_000  # words of a language
_FLAT = 3  # Mandelbrot's shift: the commonest words are less common than by Zipf alone
_TOPIC, _OWN, _ASKED = 0.5, 0.5, 0.45  # lengths beside the common direction's 1
_START = datetime(2024, 1, 1, 8, tzinfo=UTC)

_ENGLISH = """
time work day week thing people plan house friend family help start idea call train talk morning evening
book photo lunch dinner garden music movie school teacher doctor office meeting report server disk backup
deploy error memory service update password account invoice budget price order ticket flight hotel city
river mountain beach summer winter weather rain coffee bread cheese recipe kitchen bike car road bridge
phone camera laptop screen keyboard battery cable network router printer paper letter picture paint guitar
piano concert ticket game team player race market store shoes jacket birthday wedding holiday present
doctor nurse sleep dream exercise run swim yoga dog cat bird tree flower river window door table chair
story chapter author language lesson exam project deadline manager customer contract salary interview
"""
_CHINESE = """
时间 工作 今天 明天 朋友 家里 计划 问题 事情 办法 电话 会议 报告 医生 学校 老师 孩子 周末 早上 晚上
电影 音乐 照片 餐厅 火车 飞机 酒店 城市 天气 下雨 咖啡 面包 厨房 房间 花园 公园 手机 电脑 屏幕 键盘
网络 密码 账号 订单 价格 预算 合同 工资 面试 项目 客户 经理 团队 比赛 游戏 钢琴 吉他 画画 故事 作者
语言 课程 考试 生日 婚礼 礼物 假期 旅行 海边 爬山 游泳 跑步 睡觉 健康 医院 药店 衣服 鞋子 商店 市场
服务 磁盘 备份 重启 内存 告警 日志 版本 发布 回滚 数据 接口 证书 域名 缓存 队列 集群 节点 监控 配置
汽车 公路 大桥 河边 森林 夏天 冬天 新闻 杂志 邮件 打印 电池 相机 窗户 桌子 椅子 水果 蔬菜 牛奶 鸡蛋
"""
_SYLLABLES = "ba co da fel gri ho ja kel lor mi nav or pel qui ron sta tur vex wo zan"
_ASKS = {
    "en": ("What was it about the {} and the {}?", "When did I mention {}, {}?", "Which {} had {}?", "{} {}"),
    "zh": ("{}和{}是怎么回事？", "什么时候说过{}的{}？", "{}用的是哪个{}？", "{} {}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message, and the words it was made of."""

    message: dict[str, Any]  # in the form that `MemoryManager.import_` reads
    language: str  # en or zh
    words: tuple[str, ...]  # the commonest first


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about one message."""

    text: str
    target: str  # id of the message


def chat(count: int, seed: int = 7) -> list[Said]:
    """Return the first ``count`` messages; no text is said twice."""
    return list(islice(_all_said(random.Random(seed)), count))


def vectors_of(count: int, seed: int = 7) -> NDArray[np.float32]:
    """Return the vectors of the first ``count`` messages, a row each."""
    dice = np.random.default_rng(seed)
    common = _direction(dice)
    topics = _lengthened(_spread(dice, _TOPICS), _TOPIC)
    made = _lengthened(_spread(dice, count), _OWN)
    made += common
    made += topics[[_topic_of(place // _SESSION) for place in range(count)]]
    return _lengthened(made, 1)


def ask(
    said: Sequence[Said], vectors: NDArray[np.float32], count: int, seed: int = 8
) -> tuple[list[Question], NDArray[np.float32]]:
    """Return questions of two rare and two common words of a message each, and vectors near the message's."""
    chosen = random.Random(seed).choices(range(len(said)), k=count)
    questions = [_question(said[place], number) for number, place in enumerate(chosen)]
    noise = _lengthened(_spread(np.random.default_rng(seed), count), _ASKED)
    return questions, _lengthened(vectors[chosen] + noise, 1)


@cache
def _topic_of(session: int) -> int:
    return random.Random(session).randrange(_TOPICS)


def _all_said(dice: random.Random) -> Iterator[Said]:
    known: set[str] = set()
    for session in count():
        language = ("en", "zh")[session % 2]
        words, weights = _vocabulary(language)
        own = random.Random(_topic_of(session)).sample(words[len(_common(language)) :], _OWN_WORDS)
        for place in range(_SESSION):
            line = dice.choices(words, cum_weights=weights, k=dice.randint(*_LENGTH[language]))
            line += dice.sample(own, dice.randint(1, 2))
            dice.shuffle(line)
            while (text := _sentence(language, line)) in known:
                line.append(dice.choice(own))
            known.add(text)
            message = {
                "id": f"m{session * _SESSION + place}",
                "session_id": f"s{session}",
                "created_at": (_START + timedelta(hours=4 * session, minutes=place)).isoformat(),
                "role": ("user", "assistant")[place % 2],
                "content": text,
            }
            by_rank = sorted(dict.fromkeys(line), key=_ranks(language).__getitem__)
            yield Said(message=message, language=language, words=tuple(by_rank))


def _sentence(language: str, line: Sequence[str]) -> str:
    half = len(line) // 2
    if language == "zh":
        return f"{''.join(line[:half])}，{''.join(line[half:])}。"
    return f"{' '.join(line[:half])}, {' '.join(line[half:])}.".capitalize()


def _question(said: Said, number: int) -> Question:
    common, rare = said.words[:2], said.words[-2:]
    between = "" if said.language == "zh" else " "
    pairs = [between.join(pair) for pair in zip(common, rare, strict=True)]
    return Question(text=_ASKS[said.language][number % 4].format(*pairs), target=said.message["id"])


@cache
def _common(language: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((_ENGLISH if language == "en" else _CHINESE).split()))


@cache
def _vocabulary(language: str) -> tuple[list[str], list[float]]:
    """Return the words of a language, the commonest first, and their weights, summed up."""
    dice = random.Random(language)
    words = dict.fromkeys(_common(language))
    while len(words) < _VOCABULARY:
        if language == "en":
            words["".join(dice.choices(_SYLLABLES.split(), k=dice.randint(3, 4)))] = None
        else:
            words["".join(dice.choices(_everyday_characters(), k=2))] = None
    return list(words), list(accumulate(1 / (_FLAT + rank) for rank in range(1, len(words) + 1)))


@cache
def _everyday_characters() -> str:
    """Return the 3,755 characters of the first level of GB 2312."""
    codes = (bytes([high, low]) for high in range(0xB0, 0xD8) for low in range(0xA1, 0xFF))
    return b"".join(codes).decode("gb2312", "ignore")


@cache
def _ranks(language: str) -> dict[str, int]:
    return {word: rank for rank, word in enumerate(_vocabulary(language)[0])}


def _direction(dice: np.random.Generator) -> NDArray[np.float32]:
    return _lengthened(dice.standard_normal((1, DIMS), np.float32), 1)[0]


def _spread(dice: np.random.Generator, count: int) -> NDArray[np.float32]:
    made = dice.standard_normal((count, DIMS), np.float32)
    made *= (np.arange(1, DIMS + 1) ** -0.5).astype(np.float32)
    return made


def _lengthened(rows: NDArray[np.float32], length: float) -> NDArray[np.float32]:
    """Return the rows, changed in place, all of this length."""
    rows *= length / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
