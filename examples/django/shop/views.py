"""Place an order, and see what became of it."""

from __future__ import annotations

import json
from uuid import UUID

from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

import gapless
from shop.models import Order

WAIT_S_MAX = 30.0


@csrf_exempt
def place(request: HttpRequest) -> JsonResponse:
    """Store an order and publish it: one transaction, so there is never one without the other."""
    with transaction.atomic():
        order = Order.objects.create(article=json.loads(request.body)["article"])
        transaction_id = gapless.publish(
            connection, "placed", {"order": order.pk, "article": order.article}, key=str(order.pk)
        )
    return JsonResponse({"transaction_id": str(transaction_id)}, status=202)


def what_became_of_it(_request: HttpRequest, transaction_id: UUID) -> JsonResponse:
    """Wait until the order is packed, or say what it waits for."""
    try:
        state: str = gapless.wait_for(connection, "packing", transaction_id, WAIT_S_MAX)
    except gapless.WaitError as error:
        state = error.state
    return JsonResponse({"state": "packed" if state == "handled" else state})
