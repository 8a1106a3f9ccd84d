"""Episodes to consolidate, and episodes of eight themes in both languages to tell apart."""

from datetime import UTC, datetime, timedelta

from jiyi.records import Episode, Knowledge, Query, Scope, Step

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANA = Scope(user_id="ana")


def episode(id_, target=None, day=0, *, steps=(), user="ana", agent=None, failed=(), **fields):
    """An episode of the nth day; ``steps`` are descriptions, those in ``failed`` did not work."""
    scope = Scope(user_id=user, agent_id=agent, session_id="s")
    return Episode(
        id=id_,
        scope=scope,
        trigger_summary=fields.pop("trigger", "nginx returns 502"),
        outcome=fields.pop("outcome", "success"),
        outcome_summary=fields.pop("summary", ""),
        target=target,
        created_at=START + timedelta(days=day),
        steps=tuple(
            Step(
                id=f"{id_}-{n}",
                scope=scope,
                task_id=f"t-{id_}",
                description=text,
                tool_name="shell",
                result="exit 1" if text in failed else None,
                status="failed" if text in failed else "completed",
            )
            for n, text in enumerate(steps)
        ),
        **fields,
    )


def knowledge_of(store, user="ana"):
    """All knowledge of a user, oldest first."""
    query = Query(scope=Scope(user_id=user), kinds=("knowledge",), limit=10_000)
    found = store.find(query)
    assert all(isinstance(record, Knowledge) for record in found)
    return found


def unconsolidated(store, user="ana"):
    """Ids of the episodes that are in no knowledge."""
    query = Query(scope=Scope(user_id=user), kinds=("episode",), consolidated=False, limit=10_000)
    return {record.id for record in store.find(query)}


THEMES = {
    "en": {
        "disk": [
            "disk almost full on the log host|deleted rotated logs, 40 GB free again|df -h|rm old logs",
            "no space left on device during deploy|removed old docker images|df -h|docker image prune -a",
            "alert: filesystem usage above 95 %|compressed last month's logs|check usage|gzip old logs",
        ],
        "certificate": [
            "TLS certificate expires in three days|renewed with certbot|certbot renew|nginx -s reload",
            "browser warns that the certificate is not valid|it had expired, renewed|certbot renew",
            "renew the https certificate before Friday|new certificate until March|install|check date",
        ],
        "memory": [
            "the worker was killed, out of memory|raised the memory limit to 2 GB|dmesg|raise limit",
            "OOM killer ended the report job|batch size halved, memory is enough|read dmesg|run again",
            "process exits with code 137 every night|ran out of memory, limit doubled|raise memory limit",
        ],
        "backup": [
            "nightly backup did not run|cron entry was missing, added it again|crontab -l|add entry",
            "backup of last night is missing|the job had been disabled|list backups|run backup",
            "check why there is no backup since Monday|backup user lacked permission|read log|grant",
        ],
        "query": [
            "the orders page takes 20 seconds|added an index on customer_id|explain|create index",
            "slow query on the invoice list|missing index, created it|slow query log|create index",
            "database query times out in the report|rewrote the join, added an index|explain",
        ],
        "flight": [
            "book a flight to Lisbon for June|booked TAP on June 12, 210 euros|compare prices|book",
            "find me a cheap flight to Rome|booked an early flight for 79 euros|search flights|book",
            "I need plane tickets to Oslo for two|two seats, paid by card|search flights|choose seats",
        ],
        "mail": [
            "summarise my unread mail|12 mails, 3 need an answer|read inbox|write summary",
            "what is new in my inbox this morning?|short summary, urgent mails on top|read inbox",
            "go through today's mails and tell me what matters|five important mails|read mails|pick",
        ],
        "cooking": [
            "plan dinners for the week, vegetarian|seven dishes|choose recipes|write shopping list",
            "what can I cook tonight without meat?|suggested a chickpea curry|choose recipes",
            "make a meal plan for next week|meal plan for two|choose recipes|write shopping list",
        ],
    },
    "zh": {
        "disk": [
            "日志服务器磁盘快满了|删掉了旧的轮转日志，腾出 40 GB|df -h|删除旧日志",
            "部署时提示设备上没有空间|清理了旧的 docker 镜像|df -h|docker image prune -a",
            "告警：磁盘使用率超过 95%|压缩了上个月的日志，降到 60%|查看使用率|压缩旧日志",
        ],
        "certificate": [
            "TLS 证书三天后过期|用 certbot 续期并重载 nginx|certbot renew|nginx -s reload",
            "浏览器提示证书无效|证书已过期，已续期|openssl s_client|certbot renew",
            "周五之前把 https 证书续一下|新证书已装好，有效期到三月|申请证书|检查日期",
        ],
        "memory": [
            "worker 被杀掉了，内存不足|内存上限调到 2 GB|dmesg|调高上限",
            "报表任务被 OOM killer 结束|批量大小减半，内存够用了|看 dmesg|重跑",
            "进程每天晚上以 137 退出|内存用完了，上限翻倍|查看退出码|调高内存上限",
        ],
        "backup": [
            "昨晚的备份没有跑|迁移后 cron 条目丢了，重新加上|crontab -l|添加条目",
            "昨天夜里的备份不见了|备份任务被停用了，已启用|列出备份|执行备份",
            "查一下为什么周一以来没有备份|备份用户丢了权限，重新授权|看日志|授权",
        ],
        "query": [
            "订单页面要等 20 秒|给 customer_id 加了索引|explain analyze|创建索引",
            "发票列表的查询很慢|缺索引，已创建|慢查询日志|创建索引",
            "月报的数据库查询超时|改写了 join 并加了索引|explain|改写查询",
        ],
        "flight": [
            "订一张六月去里斯本的机票|订了 6 月 12 日的航班，210 欧元|比价|预订",
            "帮我找下个月去罗马的便宜机票|订了早班机，79 欧元|搜索航班|预订",
            "要两张去奥斯陆的机票|周五晚上两个座位，刷卡付款|搜索航班|选座",
        ],
        "mail": [
            "总结一下我的未读邮件|12 封邮件，3 封需要回复|读收件箱|写摘要",
            "今天早上收件箱有什么新邮件？|发了摘要，紧急的邮件放在最前|读收件箱|总结",
            "看一遍今天的邮件，告诉我哪些重要|列出五封重要邮件|获取邮件|挑出重要的",
        ],
        "cooking": [
            "安排一周的素食晚餐|七道菜和一张购物清单|选菜谱|写购物清单",
            "今晚不吃肉可以做什么菜？|推荐了鹰嘴豆咖喱，用户喜欢|选菜谱|推荐",
            "做一份下周的饮食计划|两人份的菜谱和购物清单|选菜谱|写购物清单",
        ],
    },
}


def themed(language):
    """Episodes without a target, of mixed themes in turn, with the theme of each by id."""
    themes = THEMES[language]
    rows = [(f"{theme}-{n}", themes[theme][n]) for n in range(3) for theme in themes]
    episodes = []
    for day, (id_, told) in enumerate(rows):
        trigger, summary, *steps = told.split("|")
        episodes.append(episode(id_, day=day, trigger=trigger, summary=summary, steps=steps))
    return episodes, {id_: id_.rpartition("-")[0] for id_, _ in rows}
