/** Computes a value from a row once, when the row cannot change. */
import { deepFreeze } from '../lib/deep-freeze.ts'

/**
 * A store returns the same frozen object for as long as the row is the same. The value computed from such an object is
 * cached and frozen too. For any other object it is computed each time.
 */
export function memoizeByRow<Row extends object, T extends object>(derive: (row: Row) => T): (row: Row) => T {
  const known = new WeakMap<Row, T>()
  return (row) => {
    if (!Object.isFrozen(row)) return derive(row)
    const found = known.get(row) ?? deepFreeze(derive(row))
    known.set(row, found)
    return found
  }
}
