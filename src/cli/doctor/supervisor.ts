/** Reports whether the supervisor runs. A stopped supervisor is fine: the first command that needs it starts it. */
import { formatDuration } from '../../lib/duration.ts'
import { findSupervisor } from '../../supervisor/connect-or-start.ts'
import type { CliContext } from '../context.ts'
import type { HealthRow } from './row.ts'

export async function supervisorHealth(context: CliContext): Promise<HealthRow> {
  const name = 'supervisor'
  using client = await findSupervisor(context)
  if (client === undefined) return { name, state: 'ok', detail: 'not running: starts on demand' }
  const status = await client.supervisor.status()
  const { version, pid, sandboxes, started_at_ms, draining, program_gone } = status
  if (draining) return { name, state: 'ok', detail: `pid ${pid} is shutting down` }
  if (program_gone)
    return {
      name,
      state: 'warn',
      fix: 'craik supervisor stop',
      detail: `pid ${pid}: its program was removed; the next command that needs a supervisor replaces it`,
    }
  const upMs = Math.max(0, context.clock.nowMs() - started_at_ms)
  const held = `${sandboxes} ${sandboxes === 1 ? 'sandbox' : 'sandboxes'}`
  return { name, state: 'ok', detail: `craik ${version}, ${held}, up ${formatDuration(upMs)}` }
}
