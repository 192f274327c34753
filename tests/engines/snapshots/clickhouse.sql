-- ask
SELECT
  MAX("t2"."length") AS "length"
FROM (
  SELECT
    GREATEST(CAST(2 AS Nullable(Int64)), CAST(2 AS Nullable(Int64))) AS "length"
  FROM (
    SELECT
      *
    FROM "log" AS "t0"
    LIMIT 10000
  ) AS "t1"
) AS "t2";

-- ask
SELECT
  MAX(
    isNull(
      CASE
        WHEN isNull("t2"."item_1")
        THEN CASE
          WHEN isNull("t2"."clicks_1")
          THEN CAST(0 AS Nullable(Int64))
          ELSE CAST(NULL AS Nullable(Int64))
        END
        WHEN "t2"."clicks_1" = 0
        THEN CAST(0 AS Nullable(Int64))
        WHEN "t2"."clicks_1" = 1
        THEN CAST(1 AS Nullable(Int64))
        ELSE CAST(NULL AS Nullable(Int64))
      END + CASE
        WHEN isNull("t2"."item_2")
        THEN CASE
          WHEN isNull("t2"."clicks_2")
          THEN CAST(0 AS Nullable(Int64))
          ELSE CAST(NULL AS Nullable(Int64))
        END
        WHEN "t2"."clicks_2" = 0
        THEN CAST(0 AS Nullable(Int64))
        WHEN "t2"."clicks_2" = 1
        THEN CAST(2 AS Nullable(Int64))
        ELSE CAST(NULL AS Nullable(Int64))
      END
    )
  ) AS "clicks"
FROM (
  SELECT
    "t1"."context" AS "context",
    CASE
      WHEN "t1"."day" < 1000000000
      THEN "t1"."day"
      WHEN "t1"."day" < 100000000000
      THEN CAST(CAST(FLOOR((
        "t1"."day" - (
          "t1"."day" % 86400
        )
      ) / (
        86400
      )) AS Nullable(Int64)) AS Nullable(Int64))
      WHEN "t1"."day" < 100000000000000
      THEN CAST(CAST(FLOOR((
        "t1"."day" - (
          "t1"."day" % 86400000
        )
      ) / (
        86400000
      )) AS Nullable(Int64)) AS Nullable(Int64))
      WHEN "t1"."day" < 100000000000000000
      THEN CAST(CAST(FLOOR((
        "t1"."day" - (
          "t1"."day" % 86400000000
        )
      ) / (
        86400000000
      )) AS Nullable(Int64)) AS Nullable(Int64))
      ELSE CAST(CAST(FLOOR((
        "t1"."day" - (
          "t1"."day" % 86400000000000
        )
      ) / (
        86400000000000
      )) AS Nullable(Int64)) AS Nullable(Int64))
    END AS "period",
    CAST(CAST(reinterpretAsUInt32(
      REVERSE(UNHEX(CONCAT('0', SUBSTRING(LOWER(HEX(MD5(COALESCE("t1"."user", '')))), 1, 7))))
    ) AS Nullable(Int64)) % 30 AS Nullable(Int16)) AS "bucket",
    GREATEST(CAST(2 AS Nullable(Int64)), CAST(2 AS Nullable(Int64))) AS "length",
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
  "t2"."context" AS "context",
  "t2"."item_1" AS "item_1",
  "t2"."item_2" AS "item_2",
  "t2"."period" AS "period",
  "t2"."bucket" AS "bucket",
  "t2"."clicks" AS "clicks",
  COUNT(*) AS "n"
FROM (
  SELECT
    "t1"."context" AS "context",
    "t1"."period" AS "period",
    "t1"."bucket" AS "bucket",
    "t1"."length" AS "length",
    "t1"."item_1" AS "item_1",
    "t1"."item_2" AS "item_2",
    CASE
      WHEN "t1"."length" > 2
      THEN CAST(NULL AS Nullable(Int64))
      ELSE CASE
        WHEN isNull("t1"."item_1")
        THEN CASE
          WHEN isNull("t1"."clicks_1")
          THEN CAST(0 AS Nullable(Int64))
          ELSE CAST(NULL AS Nullable(Int64))
        END
        WHEN "t1"."clicks_1" = 0
        THEN CAST(0 AS Nullable(Int64))
        WHEN "t1"."clicks_1" = 1
        THEN CAST(1 AS Nullable(Int64))
        ELSE CAST(NULL AS Nullable(Int64))
      END + CASE
        WHEN isNull("t1"."item_2")
        THEN CASE
          WHEN isNull("t1"."clicks_2")
          THEN CAST(0 AS Nullable(Int64))
          ELSE CAST(NULL AS Nullable(Int64))
        END
        WHEN "t1"."clicks_2" = 0
        THEN CAST(0 AS Nullable(Int64))
        WHEN "t1"."clicks_2" = 1
        THEN CAST(2 AS Nullable(Int64))
        ELSE CAST(NULL AS Nullable(Int64))
      END
    END AS "clicks"
  FROM (
    SELECT
      "t0"."context" AS "context",
      CASE
        WHEN "t0"."day" < 1000000000
        THEN "t0"."day"
        WHEN "t0"."day" < 100000000000
        THEN CAST(CAST(FLOOR((
          "t0"."day" - (
            "t0"."day" % 86400
          )
        ) / (
          86400
        )) AS Nullable(Int64)) AS Nullable(Int64))
        WHEN "t0"."day" < 100000000000000
        THEN CAST(CAST(FLOOR((
          "t0"."day" - (
            "t0"."day" % 86400000
          )
        ) / (
          86400000
        )) AS Nullable(Int64)) AS Nullable(Int64))
        WHEN "t0"."day" < 100000000000000000
        THEN CAST(CAST(FLOOR((
          "t0"."day" - (
            "t0"."day" % 86400000000
          )
        ) / (
          86400000000
        )) AS Nullable(Int64)) AS Nullable(Int64))
        ELSE CAST(CAST(FLOOR((
          "t0"."day" - (
            "t0"."day" % 86400000000000
          )
        ) / (
          86400000000000
        )) AS Nullable(Int64)) AS Nullable(Int64))
      END AS "period",
      CAST(CAST(reinterpretAsUInt32(
        REVERSE(UNHEX(CONCAT('0', SUBSTRING(LOWER(HEX(MD5(COALESCE("t0"."user", '')))), 1, 7))))
      ) AS Nullable(Int64)) % 30 AS Nullable(Int16)) AS "bucket",
      GREATEST(CAST(2 AS Nullable(Int64)), CAST(2 AS Nullable(Int64))) AS "length",
      "t0"."i0" AS "item_1",
      "t0"."i1" AS "item_2",
      "t0"."c0" AS "clicks_1",
      "t0"."c1" AS "clicks_2"
    FROM "log" AS "t0"
  ) AS "t1"
) AS "t2"
GROUP BY
  "t2"."context",
  "t2"."item_1",
  "t2"."item_2",
  "t2"."period",
  "t2"."bucket",
  "t2"."clicks";
