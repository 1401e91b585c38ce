/**
 * A process that asks a provider's breaker for a turn, and holds it.
 *
 *   node prober.ts <home> <provider>    says `ready`, waits for a line, asks, says `probe` or `wait`, stays until killed
 */
import { systemClock } from '../../src/lib/clock.ts'
import { askBreaker } from '../../src/providers/breaker/breakers.ts'
import { openLog } from './log.ts'

const [home, provider] = process.argv.slice(2) as [string, string]
const { store, log } = await openLog(home)
process.stdout.write('ready\n')
process.stdin.once('data', async () => {
  const turn = await askBreaker({ store, clock: systemClock, owner: log.owner }, provider, null)
  process.stdout.write(turn.admitted ? 'probe\n' : 'wait\n')
})
