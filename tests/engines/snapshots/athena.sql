-- ask
SELECT
  MAX("t2"."length") AS "length"
FROM (
  SELECT
    GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) AS "length"
  FROM (
    SELECT
      *
    FROM "log" AS "t0"
    LIMIT 10000
  ) AS "t1"
) AS "t2";

-- ask
SELECT
  BOOL_OR(
    (
      CASE
        WHEN "t2"."item_1" IS NULL
        THEN IF("t2"."clicks_1" IS NULL, CAST(0 AS BIGINT), CAST(NULL AS BIGINT))
        WHEN "t2"."clicks_1" = 0
        THEN CAST(0 AS BIGINT)
        WHEN "t2"."clicks_1" = 1
        THEN CAST(1 AS BIGINT)
        ELSE CAST(NULL AS BIGINT)
      END + CASE
        WHEN "t2"."item_2" IS NULL
        THEN IF("t2"."clicks_2" IS NULL, CAST(0 AS BIGINT), CAST(NULL AS BIGINT))
        WHEN "t2"."clicks_2" = 0
        THEN CAST(0 AS BIGINT)
        WHEN "t2"."clicks_2" = 1
        THEN CAST(2 AS BIGINT)
        ELSE CAST(NULL AS BIGINT)
      END
    ) IS NULL
  ) AS "clicks"
FROM (
  SELECT
    "t1"."context",
    CASE
      WHEN "t1"."day" < 1000000000
      THEN "t1"."day"
      WHEN "t1"."day" < 100000000000
      THEN CAST(CAST(FLOOR(CAST((
        "t1"."day" - (
          "t1"."day" % 86400
        )
      ) AS DOUBLE) / (
        86400
      )) AS BIGINT) AS BIGINT)
      WHEN "t1"."day" < 100000000000000
      THEN CAST(CAST(FLOOR(
        CAST((
          "t1"."day" - (
            "t1"."day" % 86400000
          )
        ) AS DOUBLE) / (
          86400000
        )
      ) AS BIGINT) AS BIGINT)
      WHEN "t1"."day" < 100000000000000000
      THEN CAST(CAST(FLOOR(
        CAST((
          "t1"."day" - (
            "t1"."day" % 86400000000
          )
        ) AS DOUBLE) / (
          86400000000
        )
      ) AS BIGINT) AS BIGINT)
      ELSE CAST(CAST(FLOOR(
        CAST((
          "t1"."day" - (
            "t1"."day" % 86400000000000
          )
        ) AS DOUBLE) / (
          86400000000000
        )
      ) AS BIGINT) AS BIGINT)
    END AS "period",
    CAST(FROM_BASE(SUBSTR(LOWER(TO_HEX(MD5(TO_UTF8(COALESCE("t1"."user", ''))))), 1, 7), 16) % 30 AS SMALLINT) AS "bucket",
    GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) AS "length",
    "t1"."i0" AS "item_1",
    "t1"."i1" AS "item_2",
    "t1"."c0" AS "clicks_1",
    "t1"."c1" AS "clicks_2"
  FROM (
    SELECT
      *
    FROM "log" AS "t0"
    LIMIT 10000
  ) AS "t1"
) AS "t2";

-- log
SELECT
  "t2"."context",
  "t2"."item_1",
  "t2"."item_2",
  "t2"."period",
  "t2"."bucket",
  "t2"."clicks",
  COUNT(*) AS "n"
FROM (
  SELECT
    "t1"."context",
    "t1"."period",
    "t1"."bucket",
    "t1"."length",
    "t1"."item_1",
    "t1"."item_2",
    IF(
      "t1"."length" > 2,
      CAST(NULL AS BIGINT),
      CASE
        WHEN "t1"."item_1" IS NULL
        THEN IF("t1"."clicks_1" IS NULL, CAST(0 AS BIGINT), CAST(NULL AS BIGINT))
        WHEN "t1"."clicks_1" = 0
        THEN CAST(0 AS BIGINT)
        WHEN "t1"."clicks_1" = 1
        THEN CAST(1 AS BIGINT)
        ELSE CAST(NULL AS BIGINT)
      END + CASE
        WHEN "t1"."item_2" IS NULL
        THEN IF("t1"."clicks_2" IS NULL, CAST(0 AS BIGINT), CAST(NULL AS BIGINT))
        WHEN "t1"."clicks_2" = 0
        THEN CAST(0 AS BIGINT)
        WHEN "t1"."clicks_2" = 1
        THEN CAST(2 AS BIGINT)
        ELSE CAST(NULL AS BIGINT)
      END
    ) AS "clicks"
  FROM (
    SELECT
      "t0"."context",
      CASE
        WHEN "t0"."day" < 1000000000
        THEN "t0"."day"
        WHEN "t0"."day" < 100000000000
        THEN CAST(CAST(FLOOR(CAST((
          "t0"."day" - (
            "t0"."day" % 86400
          )
        ) AS DOUBLE) / (
          86400
        )) AS BIGINT) AS BIGINT)
        WHEN "t0"."day" < 100000000000000
        THEN CAST(CAST(FLOOR(
          CAST((
            "t0"."day" - (
              "t0"."day" % 86400000
            )
          ) AS DOUBLE) / (
            86400000
          )
        ) AS BIGINT) AS BIGINT)
        WHEN "t0"."day" < 100000000000000000
        THEN CAST(CAST(FLOOR(
          CAST((
            "t0"."day" - (
              "t0"."day" % 86400000000
            )
          ) AS DOUBLE) / (
            86400000000
          )
        ) AS BIGINT) AS BIGINT)
        ELSE CAST(CAST(FLOOR(
          CAST((
            "t0"."day" - (
              "t0"."day" % 86400000000000
            )
          ) AS DOUBLE) / (
            86400000000000
          )
        ) AS BIGINT) AS BIGINT)
      END AS "period",
      CAST(FROM_BASE(SUBSTR(LOWER(TO_HEX(MD5(TO_UTF8(COALESCE("t0"."user", ''))))), 1, 7), 16) % 30 AS SMALLINT) AS "bucket",
      GREATEST(CAST(2 AS BIGINT), CAST(2 AS BIGINT)) AS "length",
      "t0"."i0" AS "item_1",
      "t0"."i1" AS "item_2",
      "t0"."c0" AS "clicks_1",
      "t0"."c1" AS "clicks_2"
    FROM "log" AS "t0"
  ) AS "t1"
) AS "t2"
GROUP BY
  1,
  2,
  3,
  4,
  5,
  6;
