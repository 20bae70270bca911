"""The log over HTTP: what curl, a browser and programs without a driver can do with it.

It decides nothing: a request is read (`body`, `events_in`, `cloudevents`), `gapless.ops` or
publish() does it in a session (`sessions`), the answer is JSON, an error is a problem (`problem`).
It keeps nothing: any number of gateways serve one database, and each request may meet another one.

`serve` runs one, `app` has its routes, `way` is one of them: openapi.json is made of these.
"""
