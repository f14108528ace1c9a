"""What `trinity.common.models.mm_utils` imports."""


class ChatTemplateContentFormat:
    """A name."""


class ConversationMessage:
    """A name."""


def parse_chat_messages(*arguments, **options):
    """No test renders images."""
    raise NotImplementedError


async def parse_chat_messages_async(*arguments, **options):
    """No test renders images."""
    raise NotImplementedError
