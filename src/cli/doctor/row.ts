/** One line of `craik doctor`: a thing that Craik may use, how it is, and the command that mends it. */

/** `warn`: works, but less than it could. `none`: is not there, or cannot be used. */
export interface HealthRow {
  readonly name: string
  readonly version?: string
  readonly state: 'ok' | 'warn' | 'none'
  readonly detail: string
  /** A command to type. */
  readonly fix?: string
}

/** A check that fails or takes too long is a line, never an end of the others. */
export async function withinTime(
  name: string,
  deadlineMs: number,
  check: () => Promise<HealthRow | readonly HealthRow[]>,
): Promise<HealthRow | readonly HealthRow[]> {
  const { promise: deadline, resolve } = Promise.withResolvers<HealthRow>()
  const timer = setTimeout(
    () => resolve({ name, state: 'warn', detail: `did not answer within ${deadlineMs / 1000} s` }),
    deadlineMs,
  )
  try {
    return await Promise.race([check(), deadline])
  } catch (error) {
    return { name, state: 'warn', detail: `could not be checked (${reasonOf(error)})` }
  } finally {
    clearTimeout(timer)
  }
}

function reasonOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : 'unknown')
}
