/**
 * A breaker allows one probe at a time across all processes. The next one may probe when a probing process is killed.
 */
import { expect, test } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { breakerStates, checkBreaker, reportToBreaker } from '../../src/providers/breaker/breakers.ts'
import type { Store } from '../../src/store/store.ts'
import { TestHome } from '../craik.ts'
import { openLog } from './log.ts'
import { lineOf, type Script, startScript } from './scripts.ts'

const PROBER = new URL('./prober.ts', import.meta.url)
const PROVIDER = 'provider_openai'
const PROCESSES = 6

test('many processes at a half-open breaker: one probes, the others wait, and its death lets the next one probe', async () => {
  using home = new TestHome()
  await using opened = await openLog(home.home)
  const { store, log } = opened
  for (let i = 0; i < 3; i++)
    await reportToBreaker({ store }, PROVIDER, undefined, { result: 'failed', failure: 'unreachable' }, 100)
  while ((await stateOf(store)) !== 'half_open') await new Promise((done) => setTimeout(done, 20))

  const scripts = Array.from({ length: PROCESSES }, () => startScript(PROBER, [home.home, PROVIDER]))
  try {
    await Promise.all(scripts.map((script) => lineOf(script, (line) => line === 'ready')))
    for (const { process } of scripts) process.stdin!.write('go\n')
    const output = await Promise.all(scripts.map((script) => lineOf(script, (line) => line !== 'ready')))
    expect(output.filter((line) => line === 'probe')).toHaveLength(1)
    expect(output.filter((line) => line === 'wait')).toHaveLength(PROCESSES - 1)

    const ask = () => checkBreaker({ store, clock: systemClock, owner: log.owner }, PROVIDER, null)
    expect(await ask()).toMatchObject({ admitted: false, phase: 'probing' })
    await kill(scripts[output.indexOf('probe')]!)
    expect(await ask()).toMatchObject({ admitted: true, probeId: expect.any(String) })
    expect(await ask()).toMatchObject({ admitted: false, phase: 'probing' })
  } finally {
    await Promise.all(scripts.map(kill))
  }
})

async function stateOf(store: Store): Promise<string | undefined> {
  const [state] = await breakerStates(store, Date.now())
  return state?.phase
}

async function kill({ process, closed }: Script): Promise<void> {
  process.kill('SIGKILL')
  await closed
}
