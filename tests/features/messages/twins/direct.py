"""Messages for one group or one subscription, right and wrong."""

from typing import Any

NO_OBJECT = "headers are a JSON object, not "


NO_GROUP = 'topic "orders" has no group "%s": a message to it would reach no handler'


NO_SUBSCRIPTION = 'group "billing" has no subscription "%s" of topic "orders": a message to it would reach no handler'


NOT_DIRECT = 'topic "%s" takes no direct messages: gapless topics alter %s --direct'


TO_BILLING = {"gapless-to-group": "billing"}


TO_S = TO_BILLING | {"gapless-to-subscription": "s"}


# What is given: headers, group and subscription; the headers that are stored.
GOOD: list[tuple[str | None, str, str | None, dict[str, Any]]] = [
    (None, "billing", None, TO_BILLING), ("{}", "billing", None, TO_BILLING), (None, "billing", "s", TO_S),
    ('{"a": 1}', "billing", None, {"a": 1} | TO_BILLING), ('{"a": [1]}', "billing", "s", {"a": [1]} | TO_S),
    ('{"gapless-to-group": "mail"}', "billing", None, TO_BILLING), (None, "sender", None, {"gapless-to-group": "sender"}),
    ('{"gapless-to-group": "mail", "gapless-to-subscription": "m"}', "billing", "s", TO_S),
]  # fmt: skip


# Topic, headers, group, subscription; why not.
BAD: list[tuple[str, str | None, str | None, str | None, str, str]] = [
    ("orders", "[1]", "billing", None, "22023", f"{NO_OBJECT}[1]"),
    ("orders", "null", "billing", "s", "22023", f"{NO_OBJECT}null"),
    ("orders", f'"{"x" * 200}"', "billing", "s", "22023", f'{NO_OBJECT}"{"x" * 99}'),
    ("other", "5", "billing", None, "22023", f"{NO_OBJECT}5"),
    ("orders", None, None, "s", "22023", 'to_subscription "s" is of no group: say to_group, too'),
    ("other", '"x"', None, None, "22023", f'{NO_OBJECT}"x"'), ("orders", "[1]", None, None, "22023", f"{NO_OBJECT}[1]"),
    ("other", None, "billing", None, "GL409", NOT_DIRECT % ("other", "other")),
    ("other", None, "billing", "o", "GL409", NOT_DIRECT % ("other", "other")),
    ("orders", None, "alone", None, "GL404", NO_GROUP % "alone"),
    ("orders", None, "auditor", None, "GL404", NO_GROUP % "auditor"),
    ("orders", None, "nobody", "s", "GL404", NO_GROUP % "nobody"),
    ("orders", None, "", None, "GL404", NO_GROUP % ""),
    ("orders", None, "billing", "m", "GL404", NO_SUBSCRIPTION % "m"),
    ("orders", None, "billing", "o", "GL404", NO_SUBSCRIPTION % "o"),
    ("orders", None, "billing", "", "GL404", NO_SUBSCRIPTION % ""),
    ("order", None, "billing", None, "GL404", 'topic "order" does not exist: create it with gapless topics create order'),
]  # fmt: skip


def params(topic: str, headers: str | None, group: str | None, subscription: str | None) -> Any:
    return {"topic": topic, "headers": headers, "group": group, "subscription": subscription}
