"""Handle the requests of the API: reads, writes, tables, and requests for special kinds."""
