"""The page: what the lake and its tables look like, as an HTTP API and static files.

1. It knows no Airflow: ``ui`` mounts it there, ``segtable ui`` serves it on loopback.
2. ``page_app`` (``app``) takes a ``Lake`` (``lake``), ``Rights`` (``rights``) and the actions.
3. A view module has frozen models, a function from what was seen of a table to a model, and
   ``routes(lake)``. It holds no logic: answers are those of the library, of services and planning.
4. Routes are coroutines, and wait for the lake's own threads. So a store that hangs takes no thread
   of the server that the page is mounted in.
5. Every GET answers with an ``Answer`` (``answer``): the data, the version, and their age.
6. An action is a type (``action_kind``) that previews itself, and does itself by a service. Routes
   and the port are in ``actions``; ``actions_here`` acts in this process, ``ui.airflow_actions`` by
   DAG runs.
"""
