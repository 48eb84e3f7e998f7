"""Orders, and what was done about them."""

from django.db import models


class Order(models.Model):
    """One row for each order."""

    number = models.IntegerField(unique=True)


class Mail(models.Model):
    """One row for each confirmation."""

    number = models.IntegerField()
    by = models.CharField(max_length=100)
