/**
 * Reports the limits for all sandboxes of this home together, and how much of them is used. It starts and creates
 * nothing.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { CraikError } from '../../errors.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import { LIMITS_FILE } from '../../sandboxes/admission-settings.ts'
import { capacityOf } from '../../sandboxes/lifecycle/admission.ts'
import type { CliContext } from '../context.ts'
import { readLimits } from '../limits-file.ts'
import { describeCapacity, nearCapacity } from '../sandbox/capacity.ts'
import type { HealthRow } from './row.ts'

/** More sandboxes than a home can contain. */
const ALL = 100_000

export async function limitsHealth(context: CliContext): Promise<HealthRow> {
  const name = 'limits'
  try {
    const { admission } = await readLimits(context.home)
    const rows = existsSync(context.home.database)
      ? await (await context.store()).read((tables) => tables.sandboxes.list({}, ALL))
      : []
    const capacities = capacityOf(rows, admission).map(({ inUse, ...capacity }) => ({
      ...capacity,
      in_use: inUse,
    }))
    const near = nearCapacity(capacities)
    if (near.length === 0) return { name, state: 'ok', detail: describeCapacity(capacities) }
    return {
      name,
      state: 'warn',
      detail: `nearly reached: ${describeCapacity(near)}`,
      fix: 'craik sandbox list',
    }
  } catch (error) {
    if (!(error instanceof CraikError) || error.code !== 'invalid_config') throw error
    return {
      name,
      state: 'none',
      // A running supervisor keeps the limits of the last valid file.
      detail: `${error.message}; a running supervisor keeps the previous limits`,
      fix: `\${EDITOR:-vi} ${quoteArgument(join(context.home.config, LIMITS_FILE))}`,
    }
  }
}
