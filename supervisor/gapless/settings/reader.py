"""Reads a YAML file into a Document, flat but for nested sections; only this module knows YAML.

Scalars stay the text that was written: the declared type of a setting decides their meaning, not
YAML's guess (`groupId: 010` is a name). Nothing is constructed, so a tag has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from gapless import feature
from gapless.errors import ConfigError
from gapless.settings.declared import DECLARED_MAX, Declared, NamedSection
from gapless.settings.document import Document, Nested, Raw, SettingEntry

if TYPE_CHECKING:
    from pathlib import Path

_FILE_BYTES_MAX = 1 << 20
_YAML_TAGS = "tag:yaml.org,2002:"
_NULL_TAG = f"{_YAML_TAGS}null"


def read_document(path: Path) -> Document:
    """Read a file of keys and values; an empty file has none. Raises ConfigError."""
    root = _compose(path, _read_text(path))
    if root is None or root.tag == _NULL_TAG:
        return Document(path=path)
    if not isinstance(root, yaml.MappingNode):
        what = "list" if isinstance(root, yaml.SequenceNode) else "single value"
        raise ConfigError(f"{path} line {_line(root)}: must be keys with values, not a {what}")
    entries: dict[str, SettingEntry] = {}
    declared: list[Declared] = []
    nested = {section.key: section for section in feature.parts(lambda each: each.nested())}
    for key_node, value_node in root.value:
        section = nested.get(key_node.value) if isinstance(key_node.value, str) else None
        if section is not None and all(each.section is not section for each in declared):
            declared += _declared(path, value_node, section)
            continue
        entry = _entry(path, key_node, value_node)
        if earlier := entries.get(entry.key):
            raise ConfigError(
                f"{path} line {entry.line}: {entry.key!r} was already set in line {earlier.line}"
            )
        entries[entry.key] = entry
    return Document(path=path, entries=entries, declared=tuple(declared))


def _declared(path: Path, node: yaml.Node, section: NamedSection) -> Iterable[Declared]:
    if node.tag == _NULL_TAG:
        return ()
    if not isinstance(node, yaml.MappingNode) or len(node.value) > DECLARED_MAX:
        raise ConfigError(
            f"{path} line {_line(node)}: {section.key} must be names with the fields of a "
            f"{section.thing} each, at most {DECLARED_MAX}"
        )
    found: dict[str, Declared] = {}
    for key, value in node.value:
        name = _entry(path, key, key).key
        place = f"{path} line {_line(key)}"
        if name in found:
            raise ConfigError(f"{place}: {section.key}.{name} was already set")
        made = Declared(section=section, name=name, place=place)
        if not isinstance(value, yaml.MappingNode):
            raise made.refused(f"must have fields, such as {section.such_as}")
        found[name] = replace(made, fields=_fields(path, value, made))
    return found.values()


def _fields(path: Path, node: yaml.MappingNode, declared: Declared) -> dict[str, str]:
    fields: dict[str, str] = {}
    for key, value in node.value:
        entry = _entry(path, key, value)
        if entry.key not in (known := declared.section.fields):
            raise declared.refused(f"unknown field {entry.key!r}: there is {', '.join(known)}")
        if not isinstance(value, yaml.ScalarNode):
            raise declared.refused(f"{entry.key} must be text, JSON in quotes")
        if entry.key in fields:
            raise declared.refused(f"{entry.key} was already set")
        if isinstance(entry.raw, str):
            fields[entry.key] = entry.raw
    return fields


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:  # ValueError: NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read: {reason}") from error
    if len(content) > _FILE_BYTES_MAX:
        raise ConfigError(f"{path}: is larger than 1 MiB; that is no config file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: is not UTF-8; save it as UTF-8") from error


def _compose(path: Path, text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        complaint = _forbidden_character(error, text)
        raise ConfigError(f"{path} {complaint}") from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{path} {_complaint(error)}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: is nested too deeply; settings are not nested") from error


def _forbidden_character(error: yaml.reader.ReaderError, text: str) -> str:
    line = text.count("\n", 0, error.position) + 1
    column = error.position - text.rfind("\n", 0, error.position)
    character = f"U+{ord(text[error.position]):04X}"
    return f"line {line} column {column}: not YAML: character {character} is not allowed"


def _complaint(error: yaml.MarkedYAMLError) -> str:
    """Put the place and the parser's words on one line."""
    mark = error.problem_mark or error.context_mark
    words = ", ".join(word for word in (error.context, error.problem) if word)
    place = f"line {mark.line + 1} column {mark.column + 1}" if mark else ""
    return f"{place}: not YAML: {' '.join(words.split())}"


def _entry(path: Path, key: yaml.Node, value: yaml.Node) -> SettingEntry:
    if not isinstance(key, yaml.ScalarNode):
        raise ConfigError(f"{path} line {_line(key)}: a key must be a plain name")
    return SettingEntry(key=str(key.value), line=_line(key), raw=_raw(path, value))


def _raw(path: Path, node: yaml.Node) -> Raw:
    if isinstance(node, yaml.ScalarNode):
        return _text(path, node)
    if not isinstance(node, yaml.SequenceNode):
        return Nested()
    texts: list[str] = []
    for item in node.value:
        if not isinstance(item, yaml.ScalarNode):
            return Nested()
        texts.append(_text(path, item) or "")
    return tuple(texts)


def _text(path: Path, node: yaml.ScalarNode) -> str | None:
    if not str(node.tag).startswith(_YAML_TAGS):
        raise ConfigError(f"{path} line {_line(node)}: the tag {node.tag!r} means nothing here")
    return None if node.tag == _NULL_TAG else str(node.value)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
