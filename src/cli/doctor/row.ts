/** One line of `craik doctor`: something that Craik may use, its state, and the command that fixes it. */

/** `warn`: works with restrictions. `none`: missing or unusable. */
export interface HealthRow {
  readonly name: string
  readonly version?: string
  readonly state: 'ok' | 'warn' | 'none'
  readonly detail: string
  /** The command that fixes it. */
  readonly fix?: string
}

/** Turns a check that fails or takes too long into a row, so that the other checks still appear. */
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
