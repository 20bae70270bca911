"""The log over HTTP, for curl, browsers and programs without a driver.

The gateway decides nothing: it reads a request (`body`, `events_in`, `cloudevents`), `gapless.ops`
or publish() does the work in a session (`sessions`), the answer is JSON, an error is a problem
(`problem`). It keeps no state: any number of gateways serve one database, and each request may
reach another one.

`serve` runs a gateway, `app` has its routes, `way` is one route: openapi.json is made of these.
"""
