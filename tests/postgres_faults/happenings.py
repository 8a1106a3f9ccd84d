"""What happens to a server while programs save."""

import threading
import time

import psycopg
from postgres_faults.saving import Savers
from postgres_server import PostgresServer

__all__ = ["cut_off", "killed", "stopped"]

AWAY = 0.3  # seconds
PAUSE = 0.15  # seconds between two cuts


def stopped(server: PostgresServer, url: str, savers: Savers) -> None:
    """Stop the server and start it again."""
    server.stop()
    time.sleep(AWAY)
    server.start()


def killed(server: PostgresServer, url: str, savers: Savers) -> None:
    """Kill the server and all its processes, and start it again."""
    server.kill9()
    time.sleep(AWAY)
    server.start()


def cut_off(server: PostgresServer, url: str, savers: Savers) -> None:
    """Cut all connections to the database again and again, until a third more is saved."""
    ended = threading.Event()

    def cut() -> None:
        words = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(server.superuser_url, autocommit=True) as keeper:
            while not ended.wait(PAUSE):
                keeper.execute(words, [url.rpartition("/")[2]])

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        savers.wait_for(min(savers.expected, len(savers.saved) + savers.expected // 3))
    finally:
        ended.set()
        thread.join()
