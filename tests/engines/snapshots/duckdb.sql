-- lists as arrays
WITH records AS (
SELECT CAST(s."context" AS VARCHAR) AS "context",
  CASE WHEN s."day" < 1000000000 THEN s."day" WHEN s."day" < 100000000000 THEN CAST((s."day" - (s."day" % 86400)) / 86400 AS BIGINT) WHEN s."day" < 100000000000000 THEN CAST((s."day" - (s."day" % 86400000)) / 86400000 AS BIGINT) WHEN s."day" < 100000000000000000 THEN CAST((s."day" - (s."day" % 86400000000)) / 86400000000 AS BIGINT) ELSE CAST((s."day" - (s."day" % 86400000000000)) / 86400000000000 AS BIGINT) END AS "period",
  CAST(CASE WHEN coalesce(len(s."items"),
  0) >= coalesce(len(s."clicks"),
  0) THEN coalesce(len(s."items"),
  0) ELSE coalesce(len(s."clicks"),
  0) END AS BIGINT) AS "length",
  (s."items")[1] AS "item_1",
  (s."items")[2] AS "item_2",
  (s."clicks")[1] AS "clicks_1",
  (s."clicks")[2] AS "clicks_2"
FROM "log" AS s
),
  judged AS (
SELECT s."context" AS "context",
  s."item_1" AS "item_1",
  s."item_2" AS "item_2",
  s."period" AS "period",
  CASE WHEN s."length" <= 2 THEN CASE WHEN s."item_1" IS NULL THEN CASE WHEN s."clicks_1" IS NULL THEN 0 END WHEN s."clicks_1" = 0 THEN 0 WHEN s."clicks_1" = 1 THEN CAST(1 AS BIGINT) END + CASE WHEN s."item_2" IS NULL THEN CASE WHEN s."clicks_2" IS NULL THEN 0 END WHEN s."clicks_2" = 0 THEN 0 WHEN s."clicks_2" = 1 THEN CAST(2 AS BIGINT) END END AS "clicks"
FROM records AS s
)
SELECT r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."clicks",
  count(*) AS "n"
FROM judged AS r
GROUP BY r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."clicks";

-- a column a position
WITH records AS (
SELECT CAST(s."context" AS VARCHAR) AS "context",
  CASE WHEN s."day" < 1000000000 THEN s."day" WHEN s."day" < 100000000000 THEN CAST((s."day" - (s."day" % 86400)) / 86400 AS BIGINT) WHEN s."day" < 100000000000000 THEN CAST((s."day" - (s."day" % 86400000)) / 86400000 AS BIGINT) WHEN s."day" < 100000000000000000 THEN CAST((s."day" - (s."day" % 86400000000)) / 86400000000 AS BIGINT) ELSE CAST((s."day" - (s."day" % 86400000000000)) / 86400000000000 AS BIGINT) END AS "period",
  CAST(2 AS BIGINT) AS "length",
  s."i0" AS "item_1",
  s."i1" AS "item_2",
  s."c0" AS "clicks_1",
  s."c1" AS "clicks_2"
FROM "log" AS s
),
  judged AS (
SELECT s."context" AS "context",
  s."item_1" AS "item_1",
  s."item_2" AS "item_2",
  s."period" AS "period",
  CASE WHEN s."length" <= 2 THEN CASE WHEN s."item_1" IS NULL THEN CASE WHEN s."clicks_1" IS NULL THEN 0 END WHEN s."clicks_1" = 0 THEN 0 WHEN s."clicks_1" = 1 THEN CAST(1 AS BIGINT) END + CASE WHEN s."item_2" IS NULL THEN CASE WHEN s."clicks_2" IS NULL THEN 0 END WHEN s."clicks_2" = 0 THEN 0 WHEN s."clicks_2" = 1 THEN CAST(2 AS BIGINT) END END AS "clicks"
FROM records AS s
)
SELECT r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."clicks",
  count(*) AS "n"
FROM judged AS r
GROUP BY r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."clicks";

-- a row an impression
WITH records AS (
SELECT s."context" AS "context",
  s."period" AS "period",
  max(CASE WHEN s."__place" = 1 THEN s."__slot_item" END) AS "item_1",
  max(CASE WHEN s."__place" = 2 THEN s."__slot_item" END) AS "item_2",
  CASE WHEN count(s."__bit_clicks") = count(s."__place") THEN CAST(sum(s."__bit_clicks") AS BIGINT) END AS "clicks",
  coalesce(max(s."__place"),
  0) AS "length",
  count(CASE WHEN s."__slot_item" IS NOT NULL AND (s."__place" <= 2 OR s."__place" IS NULL) THEN 1 END) AS "__shown",
  max(CASE WHEN s."__list_0" IS NULL THEN 1 ELSE 0 END) AS "__list_"
FROM (SELECT CAST(s."context" AS VARCHAR) AS "context",
  CASE WHEN s."day" < 1000000000 THEN s."day" WHEN s."day" < 100000000000 THEN CAST((s."day" - (s."day" % 86400)) / 86400 AS BIGINT) WHEN s."day" < 100000000000000 THEN CAST((s."day" - (s."day" % 86400000)) / 86400000 AS BIGINT) WHEN s."day" < 100000000000000000 THEN CAST((s."day" - (s."day" % 86400000000)) / 86400000000 AS BIGINT) ELSE CAST((s."day" - (s."day" % 86400000000000)) / 86400000000000 AS BIGINT) END AS "period",
  s."list_id" AS "__list_0",
  s."item" AS "__slot_item",
  s."click" AS "__slot_clicks",
  CASE WHEN s."item" IS NULL THEN CASE WHEN s."click" IS NULL THEN 0 END WHEN s."click" = 0 THEN 0 WHEN s."click" = 1 THEN CASE WHEN s."position" = 1 THEN 1 WHEN s."position" = 2 THEN 2 ELSE 0 END END AS "__bit_clicks",
  s."position" AS "__place"
FROM "log" AS s) AS s
GROUP BY s."context",
  s."period",
  s."__list_0"
),
  judged AS (
SELECT s."context" AS "context",
  s."item_1" AS "item_1",
  s."item_2" AS "item_2",
  s."period" AS "period",
  CASE WHEN s."length" <= 2 THEN s."clicks" END AS "clicks",
  CASE WHEN s."__shown" <> CASE WHEN s."item_1" IS NULL THEN 0 ELSE 1 END + CASE WHEN s."item_2" IS NULL THEN 0 ELSE 1 END OR s."__list_" = 1 THEN 1 ELSE 0 END AS "repeated"
FROM records AS s
)
SELECT r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."clicks",
  r."repeated",
  count(*) AS "n"
FROM judged AS r
GROUP BY r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."clicks",
  r."repeated";

-- units
WITH records AS (
SELECT CAST(s."context" AS VARCHAR) AS "context",
  CASE WHEN s."day" < 1000000000 THEN s."day" WHEN s."day" < 100000000000 THEN CAST((s."day" - (s."day" % 86400)) / 86400 AS BIGINT) WHEN s."day" < 100000000000000 THEN CAST((s."day" - (s."day" % 86400000)) / 86400000 AS BIGINT) WHEN s."day" < 100000000000000000 THEN CAST((s."day" - (s."day" % 86400000000)) / 86400000000 AS BIGINT) ELSE CAST((s."day" - (s."day" % 86400000000000)) / 86400000000000 AS BIGINT) END AS "period",
  ((CAST('0x' || substr(md5(coalesce(CAST(CAST(s."user" AS VARCHAR) AS VARCHAR),
  '')),
  1,
  7) AS BIGINT)) % 30) AS "bucket",
  CAST(2 AS BIGINT) AS "length",
  s."i0" AS "item_1",
  s."i1" AS "item_2",
  s."c0" AS "clicks_1",
  s."c1" AS "clicks_2"
FROM "log" AS s
),
  judged AS (
SELECT s."context" AS "context",
  s."item_1" AS "item_1",
  s."item_2" AS "item_2",
  s."period" AS "period",
  s."bucket" AS "bucket",
  CASE WHEN s."length" <= 2 THEN CASE WHEN s."item_1" IS NULL THEN CASE WHEN s."clicks_1" IS NULL THEN 0 END WHEN s."clicks_1" = 0 THEN 0 WHEN s."clicks_1" = 1 THEN CAST(1 AS BIGINT) END + CASE WHEN s."item_2" IS NULL THEN CASE WHEN s."clicks_2" IS NULL THEN 0 END WHEN s."clicks_2" = 0 THEN 0 WHEN s."clicks_2" = 1 THEN CAST(2 AS BIGINT) END END AS "clicks"
FROM records AS s
)
SELECT r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."bucket",
  r."clicks",
  count(*) AS "n"
FROM judged AS r
GROUP BY r."context",
  r."item_1",
  r."item_2",
  r."period",
  r."bucket",
  r."clicks";
