/**
 * Times the copy of one large file into and out of a container, against `docker cp` with a container of the same image.
 */
import { createReadStream, createWriteStream, rmSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { DOCKER_COMMAND, type PlainContainers } from './docker-scene.ts'
import { inTurns, makeFile, type Rated, rateRow } from './file-rates.ts'
import { type Row, timeProcess } from './measure.ts'
import { type BareScene, jobId, never, type Supervised } from './sandboxes-scene.ts'

const MIB = 1024 * 1024
const BYTES = 256 * MIB
const ROUNDS = 7
const CHUNK_BYTES = MIB

export async function dockerFileRows(
  plain: PlainContainers,
  bare: BareScene,
  supervised: Supervised,
  sandbox: string,
  folder: string,
): Promise<Row[]> {
  const [large, copy] = [join(folder, 'large'), join(folder, 'copy')]
  makeFile(large, BYTES)
  const { files } = bare.boundary
  const { file, main, env } = supervised.command
  const cp = async (...args: readonly string[]) => timeProcess(file, [main, 'sandbox', 'cp', ...args], env)
  const { docker, version } = plain.engine
  const container = await plain.idle()
  const inside = `${container}:/workspace/home/large`
  const times = await inTurns(ROUNDS, copy, {
    boundaryIn: async () => {
      const upload = { upload: jobId(), path: 'large', bytes: BYTES, mode: 0o644 }
      await files.write(upload, 0, createReadStream(large, { highWaterMark: CHUNK_BYTES }), never)
    },
    dockerIn: () => docker('cp', large, inside),
    craikIn: () => cp(large, `${sandbox}:large`),
    boundaryOut: async () => {
      const { body } = await files.read('large', { offset: 0 }, never)
      await pipeline(body, createWriteStream(copy, { highWaterMark: CHUNK_BYTES }))
    },
    dockerOut: () => docker('cp', inside, copy),
    craikOut: () => cp(`${sandbox}:large`, copy),
  })
  await plain.remove(container)
  rmSync(large)
  const compareRates = (what: string, ours: Rated, theirs: Rated) =>
    rateRow({
      what: `${BYTES / MIB} MiB ${what}`,
      bytes: BYTES,
      ours,
      against: `\`docker cp\`, engine ${version}`,
      theirs,
      command: DOCKER_COMMAND,
    })
  return [
    compareRates('into a container over the boundary, synced', times.boundaryIn, times.dockerIn),
    compareRates('out of it over the boundary', times.boundaryOut, times.dockerOut),
    compareRates('into a container by `craik sandbox cp`, synced', times.craikIn, times.dockerIn),
    compareRates('out of it by `craik sandbox cp`', times.craikOut, times.dockerOut),
  ]
}
