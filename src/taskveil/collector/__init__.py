"""The collector: receives reports, keeps them durably and nothing else, and shows what they say (`taskveil serve`).

A report's way in: `connections` reads it within a time, `limits` says how much may come, `api/` is HTTP (who asks is
checked by `tokens`, what can be wrong is the table in `problems`), `intake` gathers what arrives into one durable
commit for many, `store/` is where reports lie (SQLite or PostgreSQL behind one protocol).

What is made of them: `estimating` makes population estimates of the stored reports, `exporting` writes them to a file,
`pages/` is what people look at.

Around it: `settings` is the configuration, `releases` the veils that reports may be of, `running` the parts of one
worker together, `serving` a worker as a process and `supervising` several of them; `journal` is what may be logged,
`metrics` what is counted.
"""
