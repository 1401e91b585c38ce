/** Times a new sandbox up to the end of its first command, against a new container and against bubblewrap alone. */
import type { DockerEngine, NoDocker } from './docker-engine.ts'
import { formatSpread, type Row, timeInTurns, timeProcess } from './measure.ts'
import { compareTimes, drain } from './sandboxes-exec.ts'
import { COMMAND, jobId, never, type OpenScene, type Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 2, counted: 25 }
/** The budget for the sidecar's own start. */
const READY_BUDGET_MS = 100
const BUBBLEWRAP = ['--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', '--unshare-all', '/bin/true']

export async function startRows(
  open: OpenScene,
  openUnisolated: OpenScene,
  { client }: Supervised,
  docker: DockerEngine | NoDocker,
): Promise<Row[]> {
  const made: string[] = []
  const engine = 'missing' in docker ? undefined : docker
  const opened: AsyncDisposable[] = []
  const times = await timeInTurns(ROUNDS, {
    bubblewrap: async () => timeProcess('bwrap', BUBBLEWRAP),
    place: async () => {
      const place = await open()
      opened.push(place)
      const argv = ['/bin/true']
      await drain((await place.boundary.jobs.start(jobId(), { kind: 'exec', argv }, never)).output)
    },
    api: async () => {
      const { id } = await client.sandboxes.create({ isolation: 'process' })
      made.push(id)
      await client.sandboxes.exec(id, { argv: ['/bin/true'] })
    },
    sidecar: async () => void opened.push(await openUnisolated()),
    // Not part of a row: removes everything that the round created, so that each round starts from the same state.
    clean: async () => {
      for (const scene of opened.splice(0)) await scene[Symbol.asyncDispose]()
      for (const id of made.splice(0)) await client.sandboxes.delete(id)
    },
    docker: async () => engine?.docker('run', '--rm', '--network', 'none', engine.image, '/bin/true'),
  })
  const what = 'create to first command, process backend'
  const { api, place, sidecar } = times
  return [
    {
      what: `${what}, through the API with receipts`,
      against: engine ? `\`docker run\` of a minimal image, engine ${engine.version}` : '`docker run`',
      ours: formatSpread(api),
      theirs: 'missing' in docker ? docker.missing : formatSpread(times.docker),
      ratio: engine && api.p50 / times.docker.p50,
      bar: { atMost: 1.3 },
      command: COMMAND,
    },
    compareTimes(`${what}, the place and its boundary alone`, place, {
      against: '`bwrap … /bin/true`, nothing else',
      theirs: times.bubblewrap,
    }),
    {
      what: 'sidecar ready: from its start to its greeting, without isolation',
      against: 'a budget of 100 ms',
      ours: formatSpread(sidecar),
      theirs: `${READY_BUDGET_MS} ms`,
      ratio: sidecar.p50 / READY_BUDGET_MS,
      bar: { atMost: 1 },
      command: COMMAND,
    },
  ]
}
