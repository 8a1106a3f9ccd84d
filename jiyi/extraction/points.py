"""Words that name a point of something, and the shapes of values, for both languages."""

import re

__all__ = [
    "CLOCK_EN",
    "CODE",
    "DATE_EN",
    "IDENT",
    "NUMBER_ZH",
    "POINT_EN",
    "POINT_ZH",
    "UNIT_EN",
    "UNIT_ZH",
    "VALUE_EN",
    "VALUE_ZH",
    "kind_of_value",
]


def _any(words: str) -> str:
    """Return the alternation of words, the longer first; "_" stands for a space."""
    listed = sorted(set(words.split()), key=lambda word: (-len(word), word))
    return "(?:" + "|".join(word.replace("_", " ") for word in listed) + ")"


POINT_ZH = _any(
    """
    端口 端口号 版本 版本号 地址 内网地址 公网地址 内网 外网 IP 域名 网址 链接 密码 口令 账号 账户
    用户名 超时 超时时间 过期时间 过期 有效期
    阈值 上限 下限 默认值 默认 天花板 最大值 最小值 单位 类型 字段名 大小 长度 容量 数量 内存 磁盘 带宽
    保留时间 保留期 保留天数 保留 留存
    间隔 频率 周期 发布窗口 维护窗口 窗口 负责人 维护人 维护者 联系人 owner 生日 电话 电话号码 手机号
    手机号码 手机 短号 座机 号码 邮箱 微信号 微信
    工号 商户号 取件码 住址 价格 单价 总价 费用 预算 月薪 工资 薪水 房租 租金 押金 目标体重 目标 身高
    体重 年龄 全名 昵称 英文名 职位 岗位
    航班号 航班 座位 车牌号 车牌 镜像 分支 仓库地址 路径 目录 编码 时区 并发数 并发 线程数 副本数 副本
    连接数 重试次数 限流 速率 QPS 比例 利率 温度
    截止日期 截止时间 截止 起飞时间 出发时间 到达时间 开会时间 下班时间 上班时间 门牌号 房间号 楼层
    血型 血压 学号 专业 班级 分辨率 帧率 采样率
    主键 字段 接口地址 入口 机房 机架 固件版本 内核版本 型号 序列号 尺码 鞋码 星座 属相 国籍 籍贯 老家 母语
    """
)
"""Points that are written about in Chinese."""

POINT_EN = _any(
    """
    port version address ip_address ip hostname key licence_key license_key api_key domain url password
    passphrase passcode token timeout time-out ttl expiry
    threshold limit rate_limit cap maximum minimum default unit type size length capacity memory disk
    bandwidth retention retention_period
    interval frequency window slot owner maintainer contact birthday birth_date email email_address
    phone phone_number
    extension price cost budget salary rent deposit target goal height weight age full_name nickname
    title position flight
    flight_number seat licence_plate license_plate image branch path directory encoding timezone
    time_zone concurrency threads replicas
    connections retries attempts deadline due_date check-in check-out departure arrival room_number
    blood_type shoe_size
    bedtime quota seat_count batch_size page_size pool_size heap_size queue_size queue_length
    entry_point key region zone resolution
    frame_rate sample_rate burst model serial_number firmware kernel interest_rate hourly_rate capacity
    manager boss
    supervisor major hometown nationality wifi_password pin pin_code door_code username user_name
    account account_number
    anniversary favourite_\\w+ favorite_\\w+ locale log_level
    """
)
"""Points that are written about in English."""

UNIT_ZH = _any(
    """
    秒 毫秒 分钟 分 小时 个小时 天 周 星期 个星期 月 个月 年 元 块 块钱 万 万元 千 亿 % ％ G GB M MB K
    KB T TB ms s MB/s 公斤 斤 千克 克
    公里 千米 米 厘米 毫米 平 平米 条 个 台 次 位 人 字 页 行 核 度 岁 楼 层 号 路 倍 份 遍 瓶 片 粒
    条/秒 次/秒 次/分钟 美元 美金 人民币 欧元
    """
)
"""Units behind a number in Chinese."""

UNIT_EN = _any(
    """
    ms milliseconds seconds second secs sec s minutes minute mins min hours hour hrs h days day weeks
    week months month years year
    % percent kB KB MB GB TB MiB GiB kg kilos pounds lbs g km kilometres kilometers miles m metres
    meters cm inches feet
    requests calls attempts retries times users seats rows items characters executors replicas nodes
    workers threads cores
    dollars euros bucks degrees Celsius Fahrenheit
    """
)
"""Units behind a number in English."""

IDENT = r"(?:[A-Za-z][A-Za-z0-9]*(?:[-_./][A-Za-z0-9]+)+|[A-Za-z]+\d[A-Za-z0-9]*)"
"""Names that people give to machines, services and settings: edge-02, page_size, k3s."""

CODE = r"(?:[A-Za-z0-9/~][A-Za-z0-9_./:@%+#()<>=-]*[A-Za-z0-9_)%>/+#])"
"""A word of Latin letters, digits and signs."""

_CLOCK = r"(?:\d{1,2}[:：.]\d{2}(?: ?[ap]\.?m\.?)?|\d{1,2} ?[ap]\.?m\b\.?)"
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
)
DATE_EN = (
    rf"(?:(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTH}\b(?:,? \d{{4}})?"
    rf"|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|{_MONTH} \d{{4}}|\d{{4}}-\d\d-\d\d)"
)
"""A date in English or in digits."""

_NUMBER = r"[$€£¥￥]?\d[\d,]*(?:\.\d+)*"
_QUOTED = r"(?:[「“\"`][^」”\"`\n]{1,40}[」”\"`])"
_AMOUNT_EN = (
    rf"{_NUMBER}(?:\.x)?(?: ?{UNIT_EN}(?![A-Za-z-]))?(?:(?: an? |/| per )(?:[a-z]+)(?: per [a-z]+)?)?"
)
_NAME_EN = r"(?:[A-Z][\w+#&.'-]*\w|[A-Z])(?: (?:of |the |and )?(?:[A-Z][\w+#&.'-]*\w|\d[\w.]*)){0,3}"
_HOURS = "(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|midnight)"
CLOCK_EN = rf"(?:{_CLOCK}|(?:(?:half|quarter) (?:past|to) )?{_HOURS}(?: thirty)?)"
"""A time of day in English."""

VALUE_EN = rf"(?:{_QUOTED}|{DATE_EN}|{_CLOCK}|{_AMOUNT_EN}(?![\w/@-])|{IDENT}|{CODE}(?<=[\d/)])|{_NAME_EN})"
"""A value in English: quoted, a date, a time, an amount, a code, a name."""

NUMBER_ZH = r"[零〇一二两三四五六七八九十百千万半]+"
"""A number in Chinese characters."""

_WHEN_ZH = (
    rf"(?:(?:每?(?:周|星期|礼拜)[一二三四五六日天1-7、]+)?(?:每天)?(?:早上|上午|中午|下午|晚上|傍晚"
    rf"|凌晨|夜里)?"
    rf"\s?(?:\d{{1,2}}|{NUMBER_ZH})\s?点(?:半|一刻|三刻|\s?(?:\d{{1,2}}|{NUMBER_ZH})\s?分?)?"
    rf"|(?:\d{{4}}\s?年\s?)?(?:农历|阳历|公历)?\s?(?:\d{{1,2}}|{NUMBER_ZH})\s?月\s?(?:\d{{1,2}}"
    rf"|{NUMBER_ZH})\s?[日号]?"
    rf"|每?(?:周|星期|礼拜)[一二三四五六日天](?:早上|上午|中午|下午|晚上)?)"
)
VALUE_ZH = (
    rf"(?:{_QUOTED}|{_WHEN_ZH}|{_NUMBER}\s?{UNIT_ZH}(?:/{UNIT_ZH}|每{UNIT_ZH})?|{NUMBER_ZH}\s?{UNIT_ZH}"
    rf"|{CODE}(?: {CODE}){{0,2}}|\d)"
)
"""A value in Chinese: quoted, a time, an amount, Latin letters or digits."""

_KINDS = (
    (
        "type",
        re.compile(r"(?:varchar|char|bigint|int|integer|text|decimal|float|boolean|json|timestamp)\b", re.I),
    ),
    ("address", re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")),
    ("version", re.compile(r"v?\d+\.\d+(?:\.\d+)*(?:-[\w.]+)?\Z", re.I)),
    ("time", re.compile(rf"{_CLOCK}|{_WHEN_ZH}")),
    ("amount", re.compile(rf"{_NUMBER}|{NUMBER_ZH}\s?{UNIT_ZH}")),
    ("path", re.compile(r"[~/]|https?:")),
)


def kind_of_value(value: str) -> str:
    """Return what shape a value has: type, address, version, time, amount, path or name."""
    plain = value.strip('「」“”"` ')
    return next((name for name, pattern in _KINDS if pattern.match(plain)), "name")
