/** What follows from a row alone, worked out once for a row that cannot change. */
import { deepFreeze } from '../lib/deep-freeze.ts'

/**
 * A store hands out the same frozen object for as long as it knows that the row is the same. What is derived from such
 * an object is kept with it, and frozen as well; from any other object it is derived anew each time.
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
