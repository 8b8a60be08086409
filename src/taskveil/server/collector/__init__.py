"""The collector: receives reports, keeps them durably and nothing else, and shows what they say (`taskveil serve`).

`store/` is where reports lie (SQLite or PostgreSQL behind one protocol); `intake` gathers what arrives into one durable
commit for many; `releases` are the veils that are open, as the store has them; `tokens` say who may do what, `limits`
how much and how slowly; `problems` is the one table of what can be wrong; `api` is HTTP, `estimating` what it says of
the stored reports; `pages/` is what people look at; `settings` is the configuration and `serving` the processes.
"""
