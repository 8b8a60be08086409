"""The collector (`taskveil serve`): receives reports, stores them and nothing else, and gives population estimates.

A request passes `connections` (deadlines), `api/` (HTTP; `tokens` checks the sender, `problems` lists all errors) and
`intake`, which writes the reports of many requests in one commit to the `store/` (SQLite or PostgreSQL).

`estimating` computes estimates from the stored reports, `exporting` writes them to a file, `pages/` is the web page.

`settings` is the configuration, `releases` the releases in the database, `running` one worker with all its parts,
`serving` the processes. `journal` is the log, `metrics` the counters.
"""
