"""What tests do with a memory again and again: somebody says something, a task is worked on."""

import jiyi


def say(memory: jiyi.MemoryManager, text: str, session: str = "s", **options: object) -> jiyi.Message:
    return memory.save_message(session, role="user", content=text, **options)


def talk(memory: jiyi.MemoryManager, turns: int, session: str = "s", first: int = 0) -> None:
    for n in range(first, first + turns):
        memory.save_message(session, role="user", content=f"question {n} about service {n}?")
        memory.save_message(session, role="assistant", content=f"service {n} listens on port {9000 + n}")


def work(
    memory: jiyi.MemoryManager, request: str = "restart nginx", *, fails: bool = False, **options: object
) -> jiyi.Episode:
    """Work on a task and end it."""
    task = memory.start_task("s", request, **options)
    memory.add_step(task.id, "docker restart nginx", tool_name="shell", status="completed")
    if fails:
        return memory.fail_task(task.id, reason="port in use")
    return memory.complete_task(task.id, summary="runs again")


def counts(memory: jiyi.MemoryManager) -> dict[str, int]:
    """Return what there is of each kind; whether it has vectors yet is left out."""
    return {kind: count for kind, count in memory.stats().items() if count and kind != "vectors_pending"}
