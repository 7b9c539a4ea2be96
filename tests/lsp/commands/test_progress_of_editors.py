"""Progress that an editor has announced itself."""

from __future__ import annotations

import anyio
import pytest

from ckwatch_lsp.commands.running_tasks import TaskProgress
from ckwatch_lsp.protocol.server import client_token
from lsp.figures.desk import desk


@pytest.mark.parametrize("token", ["theirs", 7])
async def test_the_progress_of_a_command_has_the_token_of_the_editor(token: str | int) -> None:
    async with desk() as made:
        client_token.set(token)
        first, second = (TaskProgress(made.session, title, lambda: None) for title in ("build", "time"))
        await anyio.wait_all_tasks_blocked()
        first.end()
        second.end()
        begun = [call[1] for call in made.editor.calls if call[0] == "begin_progress"]
        assert token in begun
        assert len(set(begun)) == 2
        created = [call[1] for call in made.editor.calls if call[0] == "create_progress"]
        assert created == [one for one in begun if one != token]
        assert [call[1] for call in made.editor.calls if call[0] == "report_progress"] == begun
