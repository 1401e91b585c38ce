/**
 * Selects the combinations that a file runs in the current tier. `npm test` runs each behavior once, on the combination
 * that is most likely to break. `npm run test:matrix` runs the others. The projects of vitest.config.ts set the
 * variable.
 */
const IS_MATRIX = process.env.CRAIK_TEST_TIER === 'matrix'

/** Returns the values of this tier, for a suite that repeats for several values. */
export function valuesOfTier<T>(main: readonly T[], matrix: readonly T[]): readonly T[] {
  return IS_MATRIX ? matrix : main
}
