/** The variable with the reason why container tests have no engine. The set-up sets it. */
export const NO_ENGINE = 'CRAIK_TEST_NO_ENGINE'

/** A part of the name of skipped tests. Undefined when an engine is available. */
export const ENGINE_IS_NEEDED =
  process.env[NO_ENGINE] === undefined ? undefined : `skipped: ${process.env[NO_ENGINE]}`
