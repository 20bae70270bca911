"""The table of orders."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Make it."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                (
                    "id",
                    models.AutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("article", models.CharField(max_length=100)),
                ("state", models.CharField(default="placed", max_length=20)),
            ],
        ),
    )
