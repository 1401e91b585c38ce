/** For tests with containers: why there is no engine for them, as their set-up found out. */
export const NO_ENGINE = 'CRAIK_TEST_NO_ENGINE'

/** For the name of what is skipped; undefined where an engine answers. */
export const ENGINE_IS_NEEDED =
  process.env[NO_ENGINE] === undefined ? undefined : `skipped: ${process.env[NO_ENGINE]}`
