"""The topic of placed orders, and the group that packs them."""

from django.db import migrations


class Migration(migrations.Migration):
    """Make them, once gapless's schema is there."""

    dependencies = (("shop", "0001_initial"), ("gapless", "0001_initial"))
    operations = (
        migrations.RunSQL(
            [
                "select gapless.create_topic('placed', 4)",
                "select gapless.create_group('packing', 'placed')",
            ],
            migrations.RunSQL.noop,
        ),
    )
