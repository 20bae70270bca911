"""Redrive a unit and have it handled."""

from support.world import Group, World


def redrive(world: World, group: Group, offset: int) -> str:
    ask = "select gapless.redrive_letter(%s, %s, 0, %s, 'ann')"
    return str(world.value(ask, group.name, world.topic.name, offset))
