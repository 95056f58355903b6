"""Every head's scores across many texts: shards in, partial sums out, merged in any order."""
