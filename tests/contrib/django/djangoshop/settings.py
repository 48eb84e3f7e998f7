"""What a test wants to be different comes from the environment, as JSON."""

import importlib.util
import json
import os
from pathlib import Path
from tempfile import gettempdir

BASE_DIR = Path(__file__).resolve().parent
SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "testserver"]
ROOT_URLCONF = "djangoshop.urls"
USE_TZ = True
HAS_TASKS = importlib.util.find_spec("django.tasks") is not None  # Django 6

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    *([] if HAS_TASKS else ["django_tasks"]),
    "headrace.contrib.django",
    "djangoshop.orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "/static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_FILE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": str(Path(gettempdir()) / f"headrace-django-{os.getpid()}.sqlite3"),
    "OPTIONS": {"transaction_mode": "IMMEDIATE"},
}
DATABASES = json.loads(os.environ.get("SHOP_DATABASES", "null")) or {"default": _FILE}
if any(database["ENGINE"].endswith("mysql") for database in DATABASES.values()):
    import pymysql

    pymysql.install_as_MySQLdb()
HEADRACE = json.loads(os.environ.get("SHOP_HEADRACE", "{}"))
DATABASE_ROUTERS = json.loads(os.environ.get("SHOP_ROUTERS", "[]"))
TASKS = {
    "default": {
        "BACKEND": "headrace.contrib.django.HeadraceBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": json.loads(os.environ.get("SHOP_OPTIONS", '{"KEEP": "1h", "RETRY": 2}')),
    }
}
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "loggers": {"django": {"handlers": ["console"], "level": "INFO"}},
}
