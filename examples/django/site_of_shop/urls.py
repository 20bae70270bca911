"""The addresses of the project."""

from django.contrib import admin
from django.urls import path
from shop import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/", views.place),
    path("orders/<uuid:transaction_id>/", views.what_became_of_it),
]
