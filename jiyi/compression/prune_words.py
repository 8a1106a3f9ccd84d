"""Words that carry little, for pruning: English and Chinese, by how readily they are dropped."""

import re

__all__ = [
    "COMMON_EN",
    "FILLER_EN",
    "FILLER_PHRASES",
    "FUNCTION_EN",
    "FUNCTION_ZH",
    "LIGHT_EN",
    "LIGHT_ZH",
    "NEGATION",
    "NO_DENIAL_ZH",
    "PRAISE_EN",
    "PRAISE_ZH",
    "RELATION_EN",
    "RELATION_ZH",
    "WEIGHTY_ZH",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATION = re.compile(
    r"no|not|never|none|nothing|nobody|nowhere|neither|nor|without|cannot|except|unless|instead|hardly"
    r"|barely"
    r"|(?:do|does|did|is|are|was|were|has|have|had|wo|would|ca|could|should|must|need|ai)n['’]t"
    r"|[不没沒未勿别別莫无無非甭]|不[是要能会會行对對可准再用许必]|没有|沒有|没|从不|从未|从没|并非"
    r"|并不|无法|不曾"
    r"|不得|切勿|禁止|除了|除非|而非|尚未|绝不|決不|决不|毫无",
    re.IGNORECASE,
)
"""A word that denies or limits; matched whole."""

NO_DENIAL_ZH = _words(
    """
    不过 不错 不少 不同 不仅 不但 不断 不久 不如 不管 不论 不然 不好意思 不客气 不用谢 不愧 不禁 不妨
    不光 不料 不止 没事 没关系 没错 没问题 不得不 别人 别的 别客气 别提 未来 未婚 无论 无限 无聊 莫名
    不由得 不知不觉 不住 不已 不了 别名 别墅
    """
)
"""Words that begin like a denial and are none."""

WEIGHTY_ZH = re.compile(
    r"改[成为到用名]|换[成为到用]|撤[回销]|作废|取消|停用|停止|删|废弃|下线|上线|恢复|回滚|推迟|提前"
    r"|延[期后长]|改期|搬[到家]|升[级到]|降[级到]|提[到高]|调[到整成]"
    r"|拉到|切[到换]|挪到|移到|迁[到移]|低于|高于|超过|至少|至多|最多|最少|上限|下限|不限|以内|以上"
    r"|以下|直接|允许|决定|确认|约定|交给|负责|原因|根因|因为|失败|成功|错误|报错"
    r"|叫做|改名|更名|^(?:归|叫|才|只|仅|只有|仅有|只能)$"
)
"""Words that say a change, a decision, a limit, a cause or an outcome."""

FILLER_EN = _words(
    """
    oh ah uh um er erm hm hmm mm mmm mhm wow yay yeah yep yup yea hey hi hello haha hahaha lol aw aww
    whoa ooh ugh please pls thanks thank thx welcome bye goodbye cheers sorry ok okay well so just
    really very quite actually basically literally totally definitely absolutely certainly obviously
    honestly simply truly indeed anyway anyways btw maybe perhaps rather pretty somewhat kinda sorta
    gonna wanna gotta too even still also exactly especially super such though surely gladly yes sure
    alright right hopefully apparently clearly seriously greetings dear kindly congrats congratulations
    """
)
"""Politeness, hesitation and emphasis; dropped first."""

FUNCTION_EN = _words(
    """
    a an the this that these those it its it's itself there here i me my mine myself we us our ours
    ourselves you your yours yourself yourselves he him his himself she her hers herself they them their
    theirs themselves i'm i've i'll i'd you're you've you'll you'd we're we've we'll we'd they're
    they've they'll they'd he's he'll he'd she's she'll she'd that's there's here's what's who's how's
    where's let's that'll it'll am is are was were be been being do does did doing done have has had
    having will would shall should can could may might must ought let lets and or but if then else than
    because as while although though whether since yet of at by for with about into through to from up
    down in out on off over onto upon toward towards what which who whom whose how why where when some
    any each every both all other another such own same now only more most much many few lot lots bit s
    t d m ll re ve
    """
)
"""Words of grammar; dropped second."""

RELATION_EN = _words(
    """
    before after until till since during between against under over above below within from to by but
    because if when where who more less most only all both each every per
    """
)
"""Words of grammar that say how things stand to each other; dropped later than the others."""

PRAISE_EN = _words(
    """
    great good nice awesome amazing cool wonderful fantastic incredible lovely fun sweet excellent
    perfect super beautiful glad happy excited exciting impressive inspiring inspired proud grateful
    thankful appreciate appreciated awesome brilliant neat sounds sound hope hoping wish luck best
    better interesting special worth kudos stunning gorgeous epic rad insane crazy fab fabulous terrific
    delighted thrilled enjoy enjoying enjoyed agree believe guess imagine wonder important helpful
    super-cool
    """
)
"""Opinion about what was said rather than what is; dropped before plain words."""

LIGHT_EN = _words(
    """
    thing things something anything everything stuff way ways kind sort type part lot lots time times
    get gets got getting gotten go goes going went gone come comes coming came make makes making made
    take takes taking took taken know knows knowing knew known think thinks thinking thought see sees
    seeing saw seen look looks looking looked say says saying said tell telling told want wants wanted
    need needs needed try trying tried feel feels feeling felt give gives giving gave keep keeps keeping
    kept let's put puts use using used mean means meant seem seems seemed happen happens happened able
    always ever around away back again much many long little big new old whole really definitely
    sometimes often usually already someone everyone anyone people guy guys ones today lately recently
    soon talk talking chat catch hear heard share sharing check
    """
)
"""Words so common that they say little; dropped before plain words."""

COMMON_EN = _words(
    """
    help helps helped helping start started starting show shows showed showing work works working worked
    play day days week year years life world place places home day moment moments year end love loves
    loved loving like likes liked call called find finds found finding believe become became leave left
    bring brings brought begin began run running ran move moved live living lived stay stayed hold set
    learn learned learning change changed changes lead understand watch watched watching follow stop
    create creating created speak read reading allow add spend spent grow growing open walk win won
    remember consider buy bought wait send sent expect build fall cut reach remain hard easy real true
    different next few many every other same such high small large young right important public bad same
    friend friends family thought idea ideas point case fact question problem reason hand eye side head
    face word words name number night room water story together though enough quite far almost away yet
    once later early ago recently since already meet met pick picked join joined plan planning planned
    turn turned
    """
)
"""Common words that may matter; dropped a little before rarer ones."""

FUNCTION_ZH = _words(
    """
    的 地 得 了 着 过 吗 呢 吧 啊 呀 哦 嘛 么 啦 哈 哟 呐 嘞 喔 诶 欸 哎 唉 嗯 呃 额 噢 咯 喽 罢了 而已
    我 你 您 他 她 它 我们 你们 您们 他们 她们 它们 咱 咱们 自己 大家 人家 这 那 这个 那个 这些 那些
    这样 那样 这种 那种 这么 那么 这里 那里 这儿 那儿 这边 那边 此 该 其 之 所 是 就是 也是 还是 都是 有
    在 把 将 给 让 叫 使 对 对于 关于 跟 和 与 及 以及 并 并且 而 而且 或 或者 于 以 为 就 都 也 还 又
    再 便 却 很 太 挺 更 最 非常 十分 特别 比较 有点 有些 真 真的 真是 好 好好 多么 实在 确实 一个 一些
    一下 一种 一点 一样 一直 一起 个 些 种 样 时候 的话 来说 来讲 方面 情况 东西 事情 因为 所以 如果
    那么 虽然 但是 但 不过 然后 于是 因此 另外 此外 同时 首先 其次 最后 总之 其实 当然 可能 也许 大概
    可以 能 能够 会 要 想 应该 得 去 来 做 说 看 觉得 认为 感觉 知道 希望 喜欢上 开始 继续 进行 之后
    之前 以后 上 下 里 中 内 外 前 后 起来 下来 出来 过来 下去 上去 过去 等 等等 啥 什么 怎么 怎样 如何
    多少 哪 哪里 哪个 谁 为什么 個 這 這個 們 嗎 還 說 來 會 時候 對 讓 給 與 為
    """
)
"""Particles, pronouns and words of grammar."""

RELATION_ZH = _words(
    """
    从 到 至 由 被 比 向 按 用 替 因为 如果 但 但是 所以 之前 之后 以前 以后 前 后 上 下 内 外 都 最后
    首先 再 先 谁 和 与 或 跟 在
    """
)
"""Words of grammar that say how things stand to each other; dropped later than the others."""

LIGHT_ZH = _words(
    """
    非常 特别 好像 似乎 比如 例如 包括 通过 根据 方式 方法 问题 部分 一般 通常 经常 常常 有时 有时候
    总是 已经 正在 刚刚 刚才 马上 立刻 突然 终于 居然 竟然 果然 毕竟 反正 到底 究竟 几乎 差不多 一定
    必须 必要 需要 想要 打算 准备 尝试 试试 看看 想想 说说 听说 听到 看到 遇到 感到 找到 得到 成为 变得
    帮助 帮忙 帮 告诉 分享 聊聊 聊天 谈谈 了解 介绍 建议 推荐 提供 一些 许多 很多 不少 多 少 大 小 新 老
    人 事 天 年 次 件 位 份 现在 目前 今天 最近 时间 地方 生活 工作
    """
)
"""Words so common that they say little."""

PRAISE_ZH = _words(
    """
    好 棒 不错 真棒 厉害 优秀 完美 精彩 美好 开心 高兴 快乐 愉快 满意 感谢 谢谢 多谢 感激 辛苦 加油 祝
    祝你 祝福 恭喜 欢迎 抱歉 对不起 不好意思 没关系 没事 客气 请 请问 麻烦 劳驾 拜托 您好 你好 大家好
    再见 拜拜 哈哈 哈哈哈 嘿嘿 呵呵 好的 好吧 行 对 嗯嗯 是的 是啊 没错 当然 有趣 有意思 值得 重要 很棒
    太棒了 太好了
    """
)
"""Politeness and opinion about what was said."""

FILLER_PHRASES = re.compile(
    r"\b(?:you know|i mean|kind of|sort of|by the way|to be honest|a (?:little )?bit(?: of)?"
    r"|a lot(?: of)?|lots of"
    r"|as well|of course|at all|in fact|let me know|i (?:just )?wanted to|i (?:was|am) wondering if"
    r"|would you mind"
    r"|could you(?: please)?|can you(?: please)?|i would like(?: you)? to|i'd like(?: you)? to|feel free to"
    r"|thank you(?: (?:so|very) much)?|thanks(?: (?:so much|a lot|again|for (?:asking|sharing|that)))?"
    r"|how are you(?: doing)?|(?:i )?hope (?:you(?:'re| are)|all is|this) (?:doing )?(?:well|good|great)?"
    r"|(?:it's |so )?(?:good|nice|great) to (?:hear|see|meet|chat)(?: from| with)?(?: you)?|what's up"
    r"|how's it going"
    r"|it(?:'s| is) (?:important|worth) (?:to note|noting)(?: that)?|i (?:think|guess|believe"
    r"|feel like)(?: that)?"
    r"|that(?:'s| is) (?:so |really |such a )?(?:great|good|awesome|amazing|nice|cool"
    r"|wonderful)(?: to hear)?)\b"
    r"|怎么说呢|说实话|老实说|说真的|不瞒你说|话说回来|话说|顺便说一下|顺便问一下|顺便|对了|那个啥"
    r"|就是说|也就是说|换句话说|总的来说|总而言之"
    r"|简单来说|需要注意的是|值得一提的是|值得注意的是|众所周知|我想问一下|想问一下|我想请问|请问一下"
    r"|麻烦(?:你|您)?(?:帮我|帮忙)?|能不能帮我"
    r"|可以帮我|请(?:你|您)?(?:帮我|帮忙)|帮我(?=[^忙])|非常感谢|十分感谢|谢谢(?:你|您"
    r"|大家)?(?:的[^，。！？,.!?\n]{1,6})?|辛苦(?:你|您|大家)?了"
    r"|不好意思|没问题|没关系|不客气|别客气|好的[呀啊吧]?|嗯+|哦+|我觉得|我认为|我感觉|我想|(?:你|您"
    r"|大家)好|的话|一下(?:子)?|有(?:一)?点儿?",
    re.IGNORECASE,
)
"""Turns of phrase that can go whole."""
