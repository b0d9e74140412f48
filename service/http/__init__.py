"""HTTP independent of studies: connections, entity tags, pagination, problem documents, rate limits."""
