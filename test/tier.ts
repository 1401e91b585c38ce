/**
 * Which combinations a file runs in the tier at hand. `npm test` runs each behaviour once, on the combination that is most
 * likely to break; `npm run test:matrix` runs the others. The projects of vitest.config.ts set the variable.
 */
const IS_MATRIX = process.env.CRAIK_TEST_TIER === 'matrix'

/** Of the values that a suite repeats for, those of this tier. */
export function ofThisTier<T>(main: readonly T[], matrix: readonly T[]): readonly T[] {
  return IS_MATRIX ? matrix : main
}
