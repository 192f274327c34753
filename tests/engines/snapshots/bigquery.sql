-- fetch
SELECT
  MAX(`t2`.`length`) AS `length`
FROM (
  SELECT
    GREATEST(CAST(2 AS INT64), CAST(2 AS INT64)) AS `length`
  FROM (
    SELECT
      *
    FROM `foreclick_source` AS `t0`
    LIMIT 10000
  ) AS `t1`
) AS `t2`;

-- fetch
SELECT
  LOGICAL_OR(
    COALESCE(
      (
        LEAST(COALESCE(`t2`.`clicks_1`, 0), COALESCE(`t2`.`clicks_2`, 0)) < 0
      )
      OR (
        GREATEST(COALESCE(`t2`.`clicks_1`, 0), COALESCE(`t2`.`clicks_2`, 0)) > 1
      ),
      FALSE
    )
    OR (
      (
        (
          `t2`.`item_1` IS NULL
        ) <> (
          `t2`.`clicks_1` IS NULL
        )
      )
      OR (
        (
          `t2`.`item_2` IS NULL
        ) <> (
          `t2`.`clicks_2` IS NULL
        )
      )
    )
  ) AS `clicks`
FROM (
  SELECT
    `t1`.`context`,
    `t1`.`day` AS `period`,
    GREATEST(CAST(2 AS INT64), CAST(2 AS INT64)) AS `length`,
    `t1`.`i0` AS `item_1`,
    `t1`.`i1` AS `item_2`,
    `t1`.`c0` AS `clicks_1`,
    `t1`.`c1` AS `clicks_2`
  FROM (
    SELECT
      *
    FROM `foreclick_source` AS `t0`
    LIMIT 10000
  ) AS `t1`
) AS `t2`;

-- log
SELECT
  `t1`.`context`,
  `t1`.`item_1`,
  `t1`.`item_2`,
  `t1`.`period`,
  `t1`.`clicks`,
  `t1`.`__odd`,
  COUNT(*) AS `n`
FROM (
  SELECT
    `t0`.`context`,
    `t0`.`day` AS `period`,
    GREATEST(CAST(2 AS INT64), CAST(2 AS INT64)) AS `length`,
    `t0`.`i0` AS `item_1`,
    `t0`.`i1` AS `item_2`,
    COALESCE(
      (
        LEAST(COALESCE(`t0`.`c0`, 0), COALESCE(`t0`.`c1`, 0)) < 0
      )
      OR (
        GREATEST(COALESCE(`t0`.`c0`, 0), COALESCE(`t0`.`c1`, 0)) > 1
      ),
      FALSE
    )
    OR (
      (
        (
          `t0`.`i0` IS NULL
        ) <> (
          `t0`.`c0` IS NULL
        )
      )
      OR (
        (
          `t0`.`i1` IS NULL
        ) <> (
          `t0`.`c1` IS NULL
        )
      )
    )
    OR (
      GREATEST(CAST(2 AS INT64), CAST(2 AS INT64)) > 2
    ) AS `__odd`,
    IF(`t0`.`c0` = 1, CAST(1 AS INT64), CAST(0 AS INT64)) + IF(`t0`.`c1` = 1, CAST(2 AS INT64), CAST(0 AS INT64)) AS `clicks`
  FROM `foreclick_source` AS `t0`
) AS `t1`
GROUP BY
  1,
  2,
  3,
  4,
  5,
  6;

-- fetch
SELECT
  LOGICAL_OR(`t0`.`__odd`) AS `found`
FROM `temp`.`main`.`foreclick_log` AS `t0`;

-- fetch
SELECT
  CAST(COALESCE(SUM(`t1`.`n`), 0) AS INT64) AS `all`,
  CAST(COALESCE(SUM(IF(`t1`.`b0` OR `t1`.`b1` OR `t1`.`b2`, `t1`.`n`, 0)), 0) AS INT64) AS `any`,
  CAST(COALESCE(SUM(IF(`t1`.`b0`, `t1`.`n`, 0)), 0) AS INT64) AS `c0`,
  CAST(COALESCE(SUM(IF(`t1`.`b1`, `t1`.`n`, 0)), 0) AS INT64) AS `c1`,
  CAST(COALESCE(SUM(IF(`t1`.`b2`, `t1`.`n`, 0)), 0) AS INT64) AS `c2`
FROM (
  SELECT
    `t0`.`n`,
    COALESCE(`t0`.`context` IS NULL, FALSE) AS `b0`,
    COALESCE((
      `t0`.`item_1` IS NULL
    ) AND (
      `t0`.`item_2` IS NULL
    ), FALSE) AS `b1`,
    COALESCE(`t0`.`item_1` = `t0`.`item_2`, FALSE) AS `b2`
  FROM `temp`.`main`.`foreclick_log` AS `t0`
) AS `t1`;

-- fetch
SELECT
  `t2`.`n`,
  COUNT(*) AS `contexts`
FROM (
  SELECT
    `t1`.`context`,
    CAST(COALESCE(SUM(`t1`.`n`), 0) AS INT64) AS `n`
  FROM (
    SELECT
      `t0`.`context`,
      `t0`.`period`,
      `t0`.`item_1`,
      `t0`.`item_2`,
      CASE
        WHEN `t0`.`item_1` IS NULL
        THEN CAST(NULL AS INT64)
        WHEN (
          `t0`.`clicks` & CAST(1 AS INT64)
        ) <> CAST(0 AS INT64)
        THEN CAST(1 AS INT64)
        ELSE CAST(0 AS INT64)
      END AS `clicks_1`,
      CASE
        WHEN `t0`.`item_2` IS NULL
        THEN CAST(NULL AS INT64)
        WHEN (
          `t0`.`clicks` & CAST(2 AS INT64)
        ) <> CAST(0 AS INT64)
        THEN CAST(1 AS INT64)
        ELSE CAST(0 AS INT64)
      END AS `clicks_2`,
      `t0`.`n`
    FROM `temp`.`main`.`foreclick_log` AS `t0`
  ) AS `t1`
  GROUP BY
    1
) AS `t2`
GROUP BY
  1;

-- lists
SELECT
  `t1`.`context`,
  `t1`.`item_1`,
  `t1`.`item_2`,
  CAST(COALESCE(SUM(`t1`.`n`), 0) AS INT64) AS `n`,
  CAST(COALESCE(SUM(`t1`.`clicks_1`), 0) AS INT64) AS `clicks_1`,
  CAST(COALESCE(SUM(`t1`.`clicks_2`), 0) AS INT64) AS `clicks_2`
FROM (
  SELECT
    `t0`.`context`,
    `t0`.`item_1`,
    `t0`.`item_2`,
    `t0`.`n`,
    `t0`.`n` * COALESCE(
      CASE
        WHEN `t0`.`item_1` IS NULL
        THEN CAST(NULL AS INT64)
        WHEN (
          `t0`.`clicks` & CAST(1 AS INT64)
        ) <> CAST(0 AS INT64)
        THEN CAST(1 AS INT64)
        ELSE CAST(0 AS INT64)
      END,
      0
    ) AS `clicks_1`,
    `t0`.`n` * COALESCE(
      CASE
        WHEN `t0`.`item_2` IS NULL
        THEN CAST(NULL AS INT64)
        WHEN (
          `t0`.`clicks` & CAST(2 AS INT64)
        ) <> CAST(0 AS INT64)
        THEN CAST(1 AS INT64)
        ELSE CAST(0 AS INT64)
      END,
      0
    ) AS `clicks_2`
  FROM `temp`.`main`.`foreclick_log` AS `t0`
) AS `t1`
GROUP BY
  1,
  2,
  3;

-- contexts
SELECT
  `t6`.`context`,
  `t6`.`records`,
  `t6`.`clicks_1`,
  `t6`.`clicks_2`,
  `t6`.`shown_1`,
  `t6`.`shown_2`,
  COALESCE(`t4`.`known`, FALSE) AS `known`
FROM (
  SELECT
    `t2`.`context`,
    CAST(COALESCE(SUM(`t2`.`n`), 0) AS INT64) AS `records`,
    CAST(COALESCE(SUM(`t2`.`clicks_1`), 0) AS INT64) AS `clicks_1`,
    CAST(COALESCE(SUM(`t2`.`clicks_2`), 0) AS INT64) AS `clicks_2`,
    CAST(COALESCE(SUM(IF(`t2`.`item_1` IS NOT NULL, `t2`.`n`, CAST(0 AS INT64))), 0) AS INT64) AS `shown_1`,
    CAST(COALESCE(SUM(IF(`t2`.`item_2` IS NOT NULL, `t2`.`n`, CAST(0 AS INT64))), 0) AS INT64) AS `shown_2`
  FROM (
    SELECT
      *
    FROM `temp`.`main`.`foreclick_lists` AS `t0`
  ) AS `t2`
  GROUP BY
    1
) AS `t6`
LEFT OUTER JOIN (
  SELECT
    `t1`.`context`,
    TRUE AS `known`
  FROM `foreclick_source` AS `t1`
) AS `t4`
  ON `t6`.`context` = `t4`.`context`;

-- fetch
SELECT
  `t0`.`known`,
  COUNT(*) AS `contexts`,
  CAST(COALESCE(SUM(`t0`.`records`), 0) AS INT64) AS `records`,
  CAST(COALESCE(SUM(`t0`.`clicks_1`), 0) AS INT64) AS `clicks_1`,
  CAST(COALESCE(SUM(`t0`.`clicks_2`), 0) AS INT64) AS `clicks_2`,
  CAST(COALESCE(SUM(`t0`.`shown_1`), 0) AS INT64) AS `shown_1`,
  CAST(COALESCE(SUM(`t0`.`shown_2`), 0) AS INT64) AS `shown_2`
FROM `temp`.`main`.`foreclick_contexts` AS `t0`
GROUP BY
  1;

-- mass_slots
SELECT
  `t3`.`context`,
  `t3`.`records`,
  `t11`.`item`,
  `t11`.`mass`,
  `t11`.`position`
FROM (
  SELECT
    `t0`.`context`,
    `t0`.`records`
  FROM `temp`.`main`.`foreclick_contexts` AS `t0`
  WHERE
    `t0`.`known`
) AS `t3`
INNER JOIN (
  SELECT
    *
  FROM (
    SELECT
      `t6`.`context`,
      `t6`.`item`,
      `t6`.`mass`,
      CAST(1 AS INT64) AS `position`
    FROM (
      SELECT
        `t4`.`context`,
        `t4`.`item_1` AS `item`,
        COALESCE(SUM(`t4`.`mass`), CAST('0.0' AS FLOAT64)) AS `mass`
      FROM (
        SELECT
          *
        FROM `foreclick_source` AS `t1`
        WHERE
          `t1`.`item_1` IS NOT NULL
      ) AS `t4`
      GROUP BY
        1,
        2
    ) AS `t6`
  ) AS `t8`
  UNION ALL
  SELECT
    *
  FROM (
    SELECT
      `t7`.`context`,
      `t7`.`item`,
      `t7`.`mass`,
      CAST(2 AS INT64) AS `position`
    FROM (
      SELECT
        `t5`.`context`,
        `t5`.`item_2` AS `item`,
        COALESCE(SUM(`t5`.`mass`), CAST('0.0' AS FLOAT64)) AS `mass`
      FROM (
        SELECT
          *
        FROM `foreclick_source` AS `t1`
        WHERE
          `t1`.`item_2` IS NOT NULL
      ) AS `t5`
      GROUP BY
        1,
        2
    ) AS `t7`
  ) AS `t9`
) AS `t11`
  ON `t3`.`context` = `t11`.`context`;

-- slots
SELECT
  *
FROM (
  SELECT
    `t3`.`context`,
    `t3`.`item`,
    `t3`.`n`,
    `t3`.`clicks`,
    CAST(1 AS INT64) AS `position`
  FROM (
    SELECT
      `t1`.`context`,
      `t1`.`item_1` AS `item`,
      CAST(COALESCE(SUM(`t1`.`n`), 0) AS INT64) AS `n`,
      CAST(COALESCE(SUM(`t1`.`clicks_1`), 0) AS INT64) AS `clicks`
    FROM (
      SELECT
        *
      FROM `temp`.`main`.`foreclick_lists` AS `t0`
      WHERE
        `t0`.`item_1` IS NOT NULL
    ) AS `t1`
    GROUP BY
      1,
      2
  ) AS `t3`
) AS `t5`
UNION ALL
SELECT
  *
FROM (
  SELECT
    `t4`.`context`,
    `t4`.`item`,
    `t4`.`n`,
    `t4`.`clicks`,
    CAST(2 AS INT64) AS `position`
  FROM (
    SELECT
      `t2`.`context`,
      `t2`.`item_2` AS `item`,
      CAST(COALESCE(SUM(`t2`.`n`), 0) AS INT64) AS `n`,
      CAST(COALESCE(SUM(`t2`.`clicks_2`), 0) AS INT64) AS `clicks`
    FROM (
      SELECT
        *
      FROM `temp`.`main`.`foreclick_lists` AS `t0`
      WHERE
        `t0`.`item_2` IS NOT NULL
    ) AS `t2`
    GROUP BY
      1,
      2
  ) AS `t4`
) AS `t6`;

-- fetch
WITH `t5` AS (
  SELECT
    `t2`.`context`,
    `t2`.`records`,
    `t2`.`cell_0`,
    `t2`.`cell_1`,
    COALESCE(
      SUM(
        `t2`.`mass` * IF(`t2`.`position` <= 2, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64))
      ),
      CAST('0.0' AS FLOAT64)
    ) AS `mass_0`
  FROM (
    SELECT
      `t0`.`context`,
      `t0`.`records`,
      `t0`.`item`,
      `t0`.`mass`,
      `t0`.`position`,
      `t0`.`item` AS `cell_0`,
      `t0`.`position` AS `cell_1`
    FROM `temp`.`main`.`foreclick_mass_slots` AS `t0`
  ) AS `t2`
  GROUP BY
    1,
    2,
    3,
    4
)
SELECT
  SUM(CAST(`t14`.`records` AS FLOAT64) * `t14`.`mass_0`) AS `mass_0`,
  SUM(
    IF(
      `t14`.`log_0` > 0,
      CAST(`t14`.`records` AS FLOAT64) * `t14`.`mass_0`,
      CAST('0.0' AS FLOAT64)
    )
  ) AS `covered_0`,
  SUM(
    IF(
      `t14`.`mass_0` > 0,
      IF(`t14`.`mass_0` > 0, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64)),
      CAST('0.0' AS FLOAT64)
    )
  ) AS `cells_0`,
  SUM(
    IF(
      (
        `t14`.`mass_0` > 0
      ) AND (
        `t14`.`log_0` > 0
      ),
      IF(`t14`.`mass_0` > 0, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64)),
      CAST('0.0' AS FLOAT64)
    )
  ) AS `seen_0`,
  MAX(`t14`.`ratio_0`) AS `largest_0`,
  SUM(`t14`.`c_0` * `t14`.`w_0_0`) AS `credit_0_0`,
  SUM(`t14`.`p_0` * `t14`.`w_0_0`) AS `weighted_0_0`,
  SUM(`t14`.`p_0` * `t14`.`w_0_0` * `t14`.`w_0_0`) AS `squared_0_0`,
  SUM(
    IF(
      (
        `t14`.`log_0` > 0
      )
      AND (
        (
          CAST(`t14`.`records` AS FLOAT64) * (
            `t14`.`mass_0` - (
              CAST('10.0' AS FLOAT64) * `t14`.`log_0`
            )
          ) * IF(`t14`.`mass_0` > 0, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64))
        ) > 0
      ),
      CAST(`t14`.`records` AS FLOAT64) * (
        `t14`.`mass_0` - (
          CAST('10.0' AS FLOAT64) * `t14`.`log_0`
        )
      ) * IF(`t14`.`mass_0` > 0, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64)),
      CAST('0.0' AS FLOAT64)
    )
  ) AS `clipped_0_0`,
  SUM(
    IF(
      (
        `t14`.`log_0` > 0
      )
      AND (
        (
          CAST(`t14`.`records` AS FLOAT64) * (
            `t14`.`mass_0` - (
              CAST('10.0' AS FLOAT64) * `t14`.`log_0`
            )
          ) * IF(`t14`.`mass_0` > 0, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64))
        ) > 0
      ),
      CAST(`t14`.`records` AS FLOAT64) * (
        `t14`.`mass_0` - (
          CAST('10.0' AS FLOAT64) * `t14`.`log_0`
        )
      ) * IF(`t14`.`mass_0` > 0, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64)),
      CAST('0.0' AS FLOAT64)
    ) * IF(
      `t14`.`p_0` > 0,
      ieee_divide(`t14`.`c_0`, IF(`t14`.`p_0` > 0, `t14`.`p_0`, CAST('1.0' AS FLOAT64))),
      CAST('0.0' AS FLOAT64)
    )
  ) AS `lost_0_0`
FROM (
  SELECT
    `t13`.`context`,
    `t13`.`records`,
    `t13`.`cell_0`,
    `t13`.`cell_1`,
    `t13`.`mass_0`,
    `t13`.`n`,
    `t13`.`p_0`,
    `t13`.`c_0`,
    `t13`.`log_0`,
    `t13`.`ratio_0`,
    IF(
      `t13`.`log_0` > 0,
      LEAST(`t13`.`ratio_0`, CAST('10.0' AS FLOAT64)),
      IF(`t13`.`mass_0` > 0, CAST('10.0' AS FLOAT64), CAST('0.0' AS FLOAT64))
    ) AS `w_0_0`
  FROM (
    SELECT
      `t12`.`context`,
      `t12`.`records`,
      `t12`.`cell_0`,
      `t12`.`cell_1`,
      `t12`.`mass_0`,
      `t12`.`n`,
      `t12`.`p_0`,
      `t12`.`c_0`,
      ieee_divide(`t12`.`p_0`, CAST(`t12`.`records` AS FLOAT64)) AS `log_0`,
      IF(
        ieee_divide(`t12`.`p_0`, CAST(`t12`.`records` AS FLOAT64)) > 0,
        ieee_divide(
          `t12`.`mass_0`,
          IF(
            ieee_divide(`t12`.`p_0`, CAST(`t12`.`records` AS FLOAT64)) > 0,
            ieee_divide(`t12`.`p_0`, CAST(`t12`.`records` AS FLOAT64)),
            CAST('1.0' AS FLOAT64)
          )
        ),
        CAST('0.0' AS FLOAT64)
      ) AS `ratio_0`
    FROM (
      SELECT
        `t7`.`context`,
        `t7`.`records`,
        `t7`.`cell_0`,
        `t7`.`cell_1`,
        `t7`.`mass_0`,
        COALESCE(`t11`.`n`, CAST(0 AS INT64)) AS `n`,
        COALESCE(`t11`.`p_0`, CAST('0.0' AS FLOAT64)) AS `p_0`,
        COALESCE(`t11`.`c_0`, CAST('0.0' AS FLOAT64)) AS `c_0`
      FROM `t5` AS `t7`
      LEFT OUTER JOIN (
        SELECT
          `t4`.`context`,
          `t4`.`cell_0`,
          `t4`.`cell_1`,
          `t4`.`n`,
          CAST(`t4`.`n` AS FLOAT64) * IF(`t4`.`position` <= 2, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64)) AS `p_0`,
          CAST(`t4`.`clicks` AS FLOAT64) * IF(`t4`.`position` <= 2, CAST('1.0' AS FLOAT64), CAST('0.0' AS FLOAT64)) AS `c_0`
        FROM (
          SELECT
            `t1`.`context`,
            `t1`.`item`,
            `t1`.`n`,
            `t1`.`clicks`,
            `t1`.`position`,
            `t1`.`item` AS `cell_0`,
            `t1`.`position` AS `cell_1`
          FROM `temp`.`main`.`foreclick_slots` AS `t1`
        ) AS `t4`
        WHERE
          EXISTS(
            SELECT
              1
            FROM (
              SELECT
                `t6`.`context`,
                `t6`.`cell_0`,
                `t6`.`cell_1`
              FROM `t5` AS `t6`
            ) AS `t9`
            WHERE
              `t4`.`context` = `t9`.`context`
              AND `t4`.`cell_0` = `t9`.`cell_0`
              AND `t4`.`cell_1` = `t9`.`cell_1`
          )
      ) AS `t11`
        ON `t7`.`context` = `t11`.`context`
        AND `t7`.`cell_0` = `t11`.`cell_0`
        AND `t7`.`cell_1` = `t11`.`cell_1`
    ) AS `t12`
  ) AS `t13`
) AS `t14`;

-- fetch
SELECT
  COUNT(*) AS `n`
FROM (
  SELECT
    `t4`.`context`
  FROM (
    SELECT
      *
    FROM `foreclick_source` AS `t0`
  ) AS `t4`
  WHERE
    NOT EXISTS(
      SELECT
        1
      FROM `temp`.`main`.`foreclick_contexts` AS `t2`
      WHERE
        `t4`.`context` = `t2`.`context`
    )
) AS `t5`;
