"""Tables of the shop."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Orders and mails."""

    initial = True
    dependencies = ()
    operations = (
        migrations.CreateModel(
            "Order",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField(unique=True)),
            ],
        ),
        migrations.CreateModel(
            "Mail",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("by", models.CharField(max_length=100)),
            ],
        ),
    )
