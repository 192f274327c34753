"""Examination curves: how much positions are examined."""
