"""The policies for which an estimate is largest, one context at a time."""
