"""How does a model answer over HTTP? One process or several workers, the API of docs/server.md and a page."""
