/** Times the copy of one large file into and out of a sandbox, against a copy on the host and into a container. */
import { createReadStream, createWriteStream, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { DockerEngine, NoDocker } from './docker-engine.ts'
import { inTurns, makeFile, type Rated, rateRow } from './file-rates.ts'
import { type Row, timeProcess } from './measure.ts'
import type { Layers } from './sandboxes-exec.ts'
import { COMMAND, jobId, never } from './sandboxes-scene.ts'

const BYTES = 1024 ** 3
const ROUNDS = 3
const CHUNK_BYTES = 1024 * 1024

export async function fileRows(
  { bare, supervised, sandbox }: Layers,
  docker: DockerEngine | NoDocker,
  folder: string,
): Promise<Row[]> {
  const [large, copy] = [join(folder, 'large'), join(folder, 'copy')]
  makeFile(large, BYTES)
  const { files } = bare.boundary
  const { file, main, env } = supervised.command
  const cp = (...args: readonly string[]) => timeProcess(file, [main, 'sandbox', 'cp', ...args], env)
  const container = await containerOf(docker)
  const times = await inTurns(ROUNDS, copy, {
    host: async () => timeProcess('cp', [large, copy]),
    in: async () => {
      const upload = { upload: jobId(), path: 'large', bytes: BYTES, mode: 0o644 }
      await files.write(upload, 0, createReadStream(large, { highWaterMark: CHUNK_BYTES }), never)
    },
    out: async () => {
      const { body } = await files.read('large', { offset: 0 }, never)
      await pipeline(body, createWriteStream(copy, { highWaterMark: CHUNK_BYTES }))
    },
    cpIn: async () => cp(large, `${sandbox}:large`),
    cpOut: async () => cp(`${sandbox}:large`, copy),
    ...(container && {
      dockerIn: () => container.copy(large, `${container.id}:/large`),
      dockerOut: () => container.copy(`${container.id}:/large`, copy),
    }),
  })
  await container?.remove()
  rmSync(large)
  const name = 'missing' in docker ? '`docker cp`' : `\`docker cp\`, engine ${docker.version}`
  const missing = 'missing' in docker ? docker.missing : ''
  const compareRates = (what: string, ours: Rated, against: string, theirs: Rated) =>
    rateRow({ what, bytes: BYTES, ours, against, theirs, missing, command: COMMAND })
  return [
    compareRates('1 GiB into a sandbox over the boundary', times.in, '`cp` on the host', times.host),
    compareRates('1 GiB out of a sandbox over the boundary', times.out, '`cp` on the host', times.host),
    compareRates('1 GiB into a sandbox by `craik sandbox cp`', times.cpIn, name, times.dockerIn),
    compareRates('1 GiB out of a sandbox by `craik sandbox cp`', times.cpOut, name, times.dockerOut),
  ]
}

async function containerOf(docker: DockerEngine | NoDocker) {
  if ('missing' in docker) return undefined
  const args = ['run', '-d', '--network', 'none', docker.image, '/bin/sleep', '100000']
  const id = (await docker.docker(...args)).trim()
  return {
    id,
    copy: (from: string, to: string) => docker.docker('cp', from, to),
    remove: () => docker.docker('rm', '-f', id),
  }
}
