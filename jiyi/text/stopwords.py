"""Words that carry no search meaning, English and Chinese."""

__all__ = ["ENGLISH", "ENGLISH_QUESTION", "QUESTION_ZH"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ENGLISH = _words(
    """
    a an the this that these those such same own
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    am is are was were be been being do does did doing done have has had having
    will would shall should can could may might must ought cannot
    and or but nor so yet if then else than because as while until although though whether
    of at by for with about against between into through during before after above below
    to from up down in out on off over under again further once upon within without toward towards onto
    here there now just only also too very more most much many some any each every both few all other
    no not yes okay ok oh well really quite rather even still already ever
    s t d m ll re ve don didn doesn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn ain
    gonna wanna im ive id etc
    """
)
"""Left out of the index and of queries (compared before stemming)."""

ENGLISH_QUESTION = _words(
    """
    what whats which who whom whose when where why how please tell show find search
    """
)
"""Left out of queries only: how one asks, not what one asks for."""

QUESTION_ZH = _words(
    """
    什么 甚么 啥 怎么 怎样 怎么样 怎么办 咋 如何 哪 哪个 哪些 哪里 哪儿 哪位 哪天 哪种 哪一 谁 何时 何地
    什么样 什么时候 什么地方 为什么 为何 为啥 干嘛 几 几个 几次 几点 多少 多久 多大 多长 几时
    吗 呢 吧 啊 呀 哦 嘛 么 啦 哈 是否 是不是 有没有 能不能 可不可以 会不会 要不要 对不对
    请 请问 告诉 说说 帮 帮我 帮忙 一下 查一下 看看 看一下 知道 记得 还记得 记不记得 想想
    的 地 得 了 着 过 是 有 在 和 与 及 跟 或 或者 以及 并 而 但 但是 所以 因为 如果 那么
    我 你 您 他 她 它 我们 你们 咱们 他们 她们 它们 自己 大家
    这 那 这个 那个 这些 那些 这里 那里 这儿 那儿 这样 那样 这次 那次 某 某个
    就 都 也 还 又 再 才 很 太 最 更 挺 非常 把 被 给 对 从 到 向 于 为 以 让 叫 使 由 之 其 所
    会 能 可以 要 想 应该 需要 没 没有 不 别 不是 上次 上回 之前 以前 曾经 曾
    個 什麼 怎麼 哪個 為什麼 誰 嗎 們 這 這個 那個 還 請 請問 沒有 說 说 来 去 个 些 一个 一些 一种 时候 时
    """
)
"""Chinese question and function words: a query is cut at them, and a lone character of them is no word."""
