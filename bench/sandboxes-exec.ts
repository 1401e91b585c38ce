/** Times one small command in a sandbox, at each layer, against starting it on the host and in a container. */
import type { Readable } from 'node:stream'
import { runJob } from '../src/sdk/run-job.ts'
import type { DockerEngine, NoDocker } from './docker-engine.ts'
import { formatSpread, type Row, type Spread, timeInTurns, timeProcess } from './measure.ts'
import { PlainSpawns } from './plain-spawns.ts'
import { type BareScene, COMMAND, jobId, type Managed, never, type Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 50, counted: 500 }
/** A container needs tens of milliseconds each time, so it gets fewer rounds. */
const DOCKER_ROUNDS = { warm: 3, counted: 60 }
const COMMAND_ROUNDS = { warm: 3, counted: 25 }
const TRUE = { kind: 'exec', argv: ['/bin/true'] } as const

export interface Layers {
  readonly bare: BareScene
  readonly managed: Managed
  readonly supervised: Supervised
  readonly sandbox: string
}

export async function execRows(layers: Layers, docker: DockerEngine | NoDocker): Promise<Row[]> {
  const { bare, managed, supervised, sandbox } = layers
  const { manager, caller, id } = managed
  const boundary = async () => drain((await bare.boundary.jobs.start(jobId(), TRUE, never)).output)
  await using plain = new PlainSpawns()
  const times = await timeInTurns(ROUNDS, {
    spawn: () => plain.run(),
    boundary,
    manager: async () => drain((await manager.jobs.start(caller, id, jobId(), { spec: TRUE })).output),
    api: () => runJob(supervised.client, sandbox, { ...TRUE, argv: [...TRUE.argv] }, { jobId: jobId() }),
  })
  const spawn = { against: '`spawn` of it on the host, from a small Node process', theirs: times.spawn }
  return [
    compareTimes('exec of /bin/true over the boundary', times.boundary, spawn, { atMost: 1.6 }),
    compareTimes('the same, decided, with both receipts on disk', times.manager, spawn),
    compareTimes('the same, through the supervisor’s API with the SDK', times.api, spawn),
    await againstDocker(boundary, docker),
    await wholeCommand(supervised, sandbox),
  ]
}

async function againstDocker(
  boundary: () => Promise<unknown>,
  docker: DockerEngine | NoDocker,
): Promise<Row> {
  const what = 'exec of /bin/true over the boundary: how much faster'
  const row = { what, bar: { atLeast: 25 }, command: COMMAND }
  if ('missing' in docker) {
    const { ours } = await timeInTurns(DOCKER_ROUNDS, { ours: boundary })
    return {
      ...row,
      against: '`docker exec`',
      ours: formatSpread(ours),
      theirs: docker.missing,
      ratio: undefined,
    }
  }
  const container = (
    await docker.docker('run', '-d', '--network', 'none', docker.image, '/bin/sleep', '100000')
  ).trim()
  try {
    const { ours, theirs } = await timeInTurns(DOCKER_ROUNDS, {
      ours: boundary,
      theirs: () => docker.docker('exec', container, '/bin/true'),
    })
    const against = `\`docker exec\`, engine ${docker.version}`
    return {
      ...row,
      against,
      ours: formatSpread(ours),
      theirs: formatSpread(theirs),
      ratio: theirs.p50 / ours.p50,
    }
  } finally {
    await docker.docker('rm', '-f', container)
  }
}

async function wholeCommand({ command }: Supervised, sandbox: string): Promise<Row> {
  const { file, main, env } = command
  const args = [main, 'sandbox', 'exec', '--no-stdin', sandbox, '--', '/bin/true']
  const { ours, theirs } = await timeInTurns(COMMAND_ROUNDS, {
    ours: async () => timeProcess(file, args, env),
    theirs: async () => timeProcess(file, ['-e', '0'], env),
  })
  const against = { against: '`node -e 0`', theirs }
  return compareTimes('`craik sandbox exec ID -- /bin/true`, as installed', ours, against)
}

export function compareTimes(
  what: string,
  ours: Spread,
  { against, theirs }: { readonly against: string; readonly theirs: Spread },
  bar?: Row['bar'],
): Row {
  const ratio = ours.p50 / theirs.p50
  return {
    what,
    against,
    ours: formatSpread(ours),
    theirs: formatSpread(theirs),
    ratio,
    bar,
    command: COMMAND,
  }
}

export async function drain(stream: Readable): Promise<number> {
  let bytes = 0
  for await (const chunk of stream) bytes += (chunk as Buffer).length
  return bytes
}
