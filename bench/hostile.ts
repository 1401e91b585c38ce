/** Measures how much four hostile connections in one sandbox slow down another sandbox. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { newId } from '../src/lib/ids.ts'
import { runJob } from '../src/sdk/run-job.ts'
import { formatSpread, type Row, type Spread, spread, TemporaryFolder } from './measure.ts'
import { buildCraik, jobId, openSupervised, type Supervised } from './sandboxes-scene.ts'

const COMMAND = 'npm run bench -- hostile'
/**
 * A phase has this many rounds, or as many as fit into `PHASE_MS` when each round waits for the hostile connections.
 */
const ROUNDS = 150
const PHASE_MS = 40_000
const PROGRAM = join(import.meta.dirname, '../test/attacks/hostile-bodies.fixture.ts')
const NODE_INSIDE = '/opt/craik/node'
const DELAY_MAX_MS = 50
const BODIES = [
  { name: '33 MB of numbers in 32 KB', args: [] },
  { name: '31 MB that keep every bound', args: ['large'] },
  { name: '144 KiB of brackets, scanned on the main thread', args: ['plain'] },
] as const

export async function hostileRows(): Promise<Row[]> {
  buildCraik()
  using folder = new TemporaryFolder()
  const home = join(folder.path, 'home')
  mkdirSync(join(home, 'config'), { recursive: true, mode: 0o700 })
  // Nothing listens on this port, so a request that the gateway forwards reaches no provider.
  const accounts = 'secret/ANTHROPIC_API_KEY:\n  base_url: https://127.0.0.1:1/v1\n'
  writeFileSync(join(home, 'config/accounts.yaml'), accounts, { mode: 0o600 })
  const environment = { ANTHROPIC_API_KEY: newId<string>('key', Date.now()) }
  await using supervised = await openSupervised(home, folder.path, { environment })
  const create = (name: string): string => {
    const workspace = join(folder.path, name)
    mkdirSync(workspace)
    copyFileSync(PROGRAM, join(workspace, 'hostile-bodies.ts'))
    const made = supervised.craik('sandbox', 'create', '--workspace', workspace, '--format', 'json')
    return (JSON.parse(made) as { readonly id: string }).id
  }
  const [hostile, other] = [create('hostile'), create('other')]
  const rows: Row[] = []
  for (const body of BODIES) rows.push(...(await measure(supervised, hostile, other, body)))
  return rows
}

async function measure(
  supervised: Supervised,
  hostile: string,
  other: string,
  { name, args }: (typeof BODIES)[number],
): Promise<Row[]> {
  const quiet = await phase(supervised, other)
  const run = (...argv: readonly string[]) =>
    runJob(supervised.client, hostile, { kind: 'exec', argv: [...argv] }, { jobId: jobId() })
  await run('rm', '-f', 'stop', 'hostile-has-begun')
  const attack = run(NODE_INSIDE, '--no-warnings', 'hostile-bodies.ts', 'until-stop', ...args)
  await run('sh', '-c', 'until [ -e hostile-has-begun ]; do sleep 0.1; done')
  await delay(1_000)
  const attacked = await phase(supervised, other)
  await run('touch', 'stop')
  await attack
  return [
    {
      what: `exec in another sandbox beside four connections with ${name}`,
      against: 'the same without them',
      ours: formatSpread(attacked.execs),
      theirs: formatSpread(quiet.execs),
      ratio: attacked.execs.p50 / quiet.execs.p50,
      bar: { atMost: 2 },
      command: COMMAND,
    },
    {
      what: `the supervisor's answer at p99 meanwhile, over ${DELAY_MAX_MS} ms: no less than its event-loop delay`,
      against: `${DELAY_MAX_MS} ms`,
      ours: formatSpread(attacked.answers),
      theirs: `without them ${formatSpread(quiet.answers)}`,
      ratio: attacked.answers.p99 / DELAY_MAX_MS,
      bar: { atMost: 1 },
      command: COMMAND,
    },
  ]
}

/**
 * Times commands one after the other, and between them requests that need only a turn of the supervisor's event loop.
 */
async function phase(
  { client }: Supervised,
  sandbox: string,
): Promise<{ readonly execs: Spread; readonly answers: Spread }> {
  const execs: number[] = []
  const answers: number[] = []
  const measureMs = async (into: number[], work: () => Promise<unknown>) => {
    const startedMs = performance.now()
    await work()
    into.push(performance.now() - startedMs)
  }
  const endsMs = performance.now() + PHASE_MS
  for (let round = 0; round < ROUNDS && performance.now() < endsMs; round++) {
    await measureMs(execs, () =>
      runJob(client, sandbox, { kind: 'exec', argv: ['/bin/true'] }, { jobId: jobId() }),
    )
    for (let at = 0; at < 3; at++) {
      await measureMs(answers, () => client.sandboxes.get(sandbox))
      await delay(10)
    }
  }
  return { execs: spread(execs), answers: spread(answers) }
}
