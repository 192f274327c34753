"""The best policy that a log supports: chosen in each context, and judged by other records."""
