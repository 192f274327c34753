-- fetch
SELECT
  MAX("t2"."length") AS "length"
FROM (
  SELECT
    GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) AS "length"
  FROM (
    SELECT
      *
    FROM "foreclick_source" AS "t0"
    LIMIT 10000
  ) AS "t1"
) AS "t2";

-- fetch
SELECT
  BOOL_OR(
    COALESCE(
      (
        LEAST(COALESCE("t2"."clicks_1", 0), COALESCE("t2"."clicks_2", 0)) < 0
      )
      OR (
        GREATEST(COALESCE("t2"."clicks_1", 0), COALESCE("t2"."clicks_2", 0)) > 1
      ),
      FALSE
    )
    OR (
      (
        (
          "t2"."item_1" IS NULL
        ) <> (
          "t2"."clicks_1" IS NULL
        )
      )
      OR (
        (
          "t2"."item_2" IS NULL
        ) <> (
          "t2"."clicks_2" IS NULL
        )
      )
    )
  ) AS "clicks"
FROM (
  SELECT
    "t1"."context",
    "t1"."day" AS "period",
    GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) AS "length",
    "t1"."i0" AS "item_1",
    "t1"."i1" AS "item_2",
    "t1"."c0" AS "clicks_1",
    "t1"."c1" AS "clicks_2"
  FROM (
    SELECT
      *
    FROM "foreclick_source" AS "t0"
    LIMIT 10000
  ) AS "t1"
) AS "t2";

-- log
SELECT
  "t1"."context",
  "t1"."item_1",
  "t1"."item_2",
  "t1"."period",
  "t1"."clicks",
  "t1"."__odd",
  COUNT(*) AS "n"
FROM (
  SELECT
    "t0"."context",
    "t0"."day" AS "period",
    GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) AS "length",
    "t0"."i0" AS "item_1",
    "t0"."i1" AS "item_2",
    COALESCE(
      (
        LEAST(COALESCE("t0"."c0", 0), COALESCE("t0"."c1", 0)) < 0
      )
      OR (
        GREATEST(COALESCE("t0"."c0", 0), COALESCE("t0"."c1", 0)) > 1
      ),
      FALSE
    )
    OR (
      (
        (
          "t0"."i0" IS NULL
        ) <> (
          "t0"."c0" IS NULL
        )
      )
      OR (
        (
          "t0"."i1" IS NULL
        ) <> (
          "t0"."c1" IS NULL
        )
      )
    )
    OR (
      GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) > 2
    ) AS "__odd",
    IF("t0"."c0" = 1, CAST(1 AS BIGINT), CAST(0 AS BIGINT)) + IF("t0"."c1" = 1, CAST(2 AS BIGINT), CAST(0 AS BIGINT)) AS "clicks"
  FROM "foreclick_source" AS "t0"
) AS "t1"
GROUP BY
  1,
  2,
  3,
  4,
  5,
  6;

-- fetch
SELECT
  BOOL_OR("t0"."__odd") AS "found"
FROM "temp"."main"."foreclick_log" AS "t0";

-- fetch
SELECT
  CAST(COALESCE(SUM("t1"."n"), 0) AS BIGINT) AS "all",
  CAST(COALESCE(SUM(IF("t1"."b0" OR "t1"."b1" OR "t1"."b2", "t1"."n", 0)), 0) AS BIGINT) AS "any",
  CAST(COALESCE(SUM(IF("t1"."b0", "t1"."n", 0)), 0) AS BIGINT) AS "c0",
  CAST(COALESCE(SUM(IF("t1"."b1", "t1"."n", 0)), 0) AS BIGINT) AS "c1",
  CAST(COALESCE(SUM(IF("t1"."b2", "t1"."n", 0)), 0) AS BIGINT) AS "c2"
FROM (
  SELECT
    "t0"."n",
    COALESCE("t0"."context" IS NULL, FALSE) AS "b0",
    COALESCE((
      "t0"."item_1" IS NULL
    ) AND (
      "t0"."item_2" IS NULL
    ), FALSE) AS "b1",
    COALESCE("t0"."item_1" = "t0"."item_2", FALSE) AS "b2"
  FROM "temp"."main"."foreclick_log" AS "t0"
) AS "t1";

-- fetch
SELECT
  COUNT(*) AS "rows"
FROM (
  SELECT
    "t0"."context",
    "t0"."item_1",
    "t0"."item_2",
    "t0"."period",
    "t0"."clicks",
    "t0"."n"
  FROM "temp"."main"."foreclick_log" AS "t0"
) AS "t1";

-- fetch
SELECT
  "t0"."context",
  "t0"."item_1",
  "t0"."item_2",
  "t0"."period",
  "t0"."clicks",
  "t0"."n"
FROM "temp"."main"."foreclick_log" AS "t0";
