"""The ready-made Flower app: models and data sets that the settings name."""

from pfedul.flower.client import client_app
from pfedul.flower.server import server_app

server = server_app()
client = client_app()
