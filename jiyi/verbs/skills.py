"""Verbs about skills: list them, open one for a session, close it."""

from jiyi.errors import NotFound
from jiyi.records import Skill
from jiyi.skills import Disclosure
from jiyi.verbs.base import Verbs

__all__ = ["SkillVerbs"]


class SkillVerbs(Verbs):
    """Know-how that windows show when it is needed."""

    def skills(self) -> list[Skill]:
        """Return the skills there are, without their bodies; see the setting ``skills``."""
        return [] if self._skills is None else list(self._skills.registry.skills)

    def opened_skills(
        self, session_id: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> tuple[str, ...]:
        """Return the names of the skills whose bodies stand in the session's window."""
        return () if self._skills is None else self._seen(session_id, user_id, agent_id).opened

    def open_skill(
        self,
        session_id: str,
        name: str,
        resource: str | None = None,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> str:
        """Open a skill for a session and return its text; it stays in the window until it is closed.

        With ``resource`` the text of that file of the skill is returned, and nothing is opened.
        A task that starts in the session closes what was opened for the one before.

        Raises:
            NotFound: there is no such skill or file; names those there are.
            InputError: it cannot be read.
        """
        return self._seen(session_id, user_id, agent_id).open(name, resource)

    def close_skill(
        self, session_id: str, name: str, *, user_id: str | None = None, agent_id: str | None = None
    ) -> bool:
        """Take a skill's body out of the session's window; say whether it was open."""
        if self._skills is None:
            return False
        return self._seen(session_id, user_id, agent_id).close(name)

    def _seen(self, session_id: str, user_id: str | None, agent_id: str | None) -> Disclosure:
        if self._skills is None:
            raise NotFound(
                "this memory has no skills; open it with skills=[folder], a folder of NAME/SKILL.md"
            )
        return self._skills.of(self._scope(user_id, agent_id, session_id))
