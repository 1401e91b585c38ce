/**
 * A process that requests the probe of a provider's breaker and keeps it.
 *
 * - `node prober.ts <home> <provider>` prints `ready`, waits for a line, requests the probe, prints `probe` or `wait`,
 * and stays until it is killed.
 */
import { systemClock } from '../../src/lib/clock.ts'
import { checkBreaker } from '../../src/providers/breaker/breakers.ts'
import { openLog } from './log.ts'

const [home, provider] = process.argv.slice(2) as [string, string]
const { store, log } = await openLog(home)
process.stdout.write('ready\n')
process.stdin.once('data', async () => {
  const turn = await checkBreaker({ store, clock: systemClock, owner: log.owner }, provider, null)
  process.stdout.write(turn.admitted ? 'probe\n' : 'wait\n')
})
