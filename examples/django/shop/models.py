"""The models of the shop."""

from django.db import models


class Order(models.Model):
    """An order, and how far it is."""

    article = models.CharField(max_length=100)
    state = models.CharField(max_length=20, default="placed")

    def __str__(self) -> str:
        return f"{self.article}: {self.state}"
