"""A public data set as a log: `python -m experiments.datasets yandex train.gz log.parquet`."""

from __future__ import annotations

import argparse

from experiments.datasets import FORMATS, convert


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write a public data set as a log.")
    parser.add_argument("dataset", choices=FORMATS)
    parser.add_argument("path", help="a file, a directory or a glob")
    parser.add_argument("out", help="the Parquet file to write")
    parser.add_argument(
        "--day-length", type=int, help="of relevance_prediction: units of time in a day"
    )
    args = parser.parse_args()
    print(convert(args.dataset, args.path, args.out, day_length=args.day_length))


if __name__ == "__main__":
    main()
