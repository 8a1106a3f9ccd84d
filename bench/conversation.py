"""One long conversation of an ops agent: Chinese and English, tool calls, results of all sizes."""

import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

__all__ = ["conversation"]

_SYSTEM = "你是 xiaozhou，团队的 ops agent。只读命令可以直接跑；any change needs a confirmation first."
_ASKS = (
    "nginx 又 502 了，帮我看下 upstream 是哪台挂了",
    "db-west-02 的磁盘还剩多少？上周五清过一次 WAL",
    "Which of the app hosts restarted last night, and why?",
    "把 pay-gw 的健康检查改到 9443，先别重启",
    "Please compare today's p95 of the orders page with last Tuesday's.",
    "证书下个月到期，写个续期计划，发之前给我看一眼",
)
_TELLS = (
    "好了，app-01 和 app-02 都正常，重启次数没有再涨。",
    "Done. The limit is 1g now on both hosts; memory has been steady at 702 MiB for a quarter of an hour.",
    "原因是堆外缓存超过容器上限，OOM 之后重启，重启的间隙里 nginx 返回 502。建议先提 limit，再改缓存大小。",
    "p95 is 480 ms today against 310 ms last Tuesday; the difference begins with the release at 14:05.",
    "先看了 error.log，再看容器状态，两边对得上，不需要 reload。",
)
_TOOLS = ("run_shell", "prom_query", "read_runbook")
_LOG = "2026-03-02 08:{:02d}:{:02d} [error] upstream timed out while connecting, host app-{:02d}, 请求超时"


def conversation(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Return the first ``count`` messages, the same for the same seed; a result may be missing at the end."""
    return list(islice(_messages(random.Random(seed)), count))


def _messages(dice: random.Random) -> Iterator[dict[str, Any]]:
    yield {"role": "system", "content": _SYSTEM}
    number = 0
    while True:
        yield {"role": "user", "content": " ".join(dice.choices(_ASKS, k=dice.randint(1, 2)))}
        for _ in range(dice.randint(0, 2)):
            number += 1
            arguments = json.dumps({"host": f"app-{dice.randint(1, 9):02d}", "command": "docker ps -a"})
            call = {"name": dice.choice(_TOOLS), "arguments": arguments}
            calls = [{"id": f"call_{number}", "type": "function", "function": call}]
            yield {"role": "assistant", "content": None, "tool_calls": calls}
            log = [_LOG.format(*(dice.randint(1, 59) for _ in range(3))) for _ in range(dice.randint(1, 6))]
            yield {"role": "tool", "tool_call_id": f"call_{number}", "content": "\n".join(log)}
        yield {"role": "assistant", "content": " ".join(dice.choices(_TELLS, k=dice.randint(1, 3)))}
