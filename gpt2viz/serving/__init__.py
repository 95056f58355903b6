"""The app as a server: its start, and several processes of it behind a proxy.

``gpt2viz serve`` is one process that loads the models and forks all others: the workers, each a
separate app that shares the models' memory; the proxy, which keeps a visitor with one worker;
and the health process, which reports on the workers.
"""
