"""Addresses of the shop."""

from django.contrib import admin
from django.urls import path

from djangoshop.orders import views

urlpatterns = [
    path("up", views.up),
    path("orders", views.order),
    path("orders/<int:number>", views.show),
    path("results/<str:id>", views.result),
    path("admin/", admin.site.urls),
]
