"""Where traces live: tables, migrations, the writer, bases and codecs, queries. Knows SQL and no HTTP."""
