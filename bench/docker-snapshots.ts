/** Compares the snapshots and restores of sandboxes with layers of an image. */
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openContainer, type PlainContainers, slowerRow } from './docker-scene.ts'
import { type Row, timeInTurns } from './measure.ts'
import type { Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 1, counted: 9 }
const FILES = 2_000
const FOLDERS = 40
/** Each file contains hexadecimal digits. They compress to half their size, as sources and programs do. */
const FILE_BYTES = 100_000
const IMAGE = 'bench-committed'

export async function dockerSnapshotRows(
  plain: PlainContainers,
  cold: Supervised,
  folder: string,
): Promise<Row[]> {
  const tree = join(folder, 'tree')
  makeTree(tree)
  const { docker } = plain.engine
  const { sandboxes, snapshots } = cold.client
  const sandbox = await openContainer(cold)
  cold.craik('sandbox', 'cp', tree, `${sandbox}:tree`)
  const container = await plain.idle()
  await docker('cp', tree, `${container}:/workspace/home/tree`)
  rmSync(tree, { recursive: true })
  const { id: stored } = await snapshots.make(sandbox)
  await docker('commit', container, IMAGE)
  // This is not the committed container: the files that come with its image are not in its own layer.
  let restored = await plain.idle(IMAGE)
  const made = { snapshots: [] as string[], sandboxes: [] as string[], containers: [] as string[] }
  const times = await timeInTurns(ROUNDS, {
    snapshot: async () => void made.snapshots.push((await snapshots.make(sandbox)).id),
    commit: () => docker('commit', container, `${IMAGE}-again`),
    restore: () => snapshots.restore(sandbox, stored),
    runCommitted: async () => {
      await plain.remove(restored)
      restored = await plain.idle(IMAGE)
    },
    fork: async () => void made.sandboxes.push((await snapshots.fork(sandbox)).id),
    commitAndRun: async () => {
      await docker('commit', container, `${IMAGE}-fork`)
      made.containers.push(await plain.idle(`${IMAGE}-fork`))
    },
    // Not part of a row: removes everything that the round created, so that each round starts from the same state.
    clean: async () => {
      for (const id of made.snapshots.splice(0)) await snapshots.delete(id)
      for (const id of made.sandboxes.splice(0)) await sandboxes.delete(id)
      for (const one of made.containers.splice(0)) await plain.remove(one)
      await docker('rmi', `${IMAGE}-again`, `${IMAGE}-fork`)
    },
  })
  await plain.remove(container)
  await plain.remove(restored)
  await docker('rmi', IMAGE)
  await sandboxes.delete(sandbox)
  await snapshots.delete(stored)
  const { version } = plain.engine
  const content = `${(FILES * FILE_BYTES) / 1e6} MB in ${FILES.toLocaleString('en')} files`
  return [
    slowerRow(
      `snapshot of a running sandbox, ${content}: a compressed archive, synced`,
      times.snapshot,
      `\`docker commit\` of a container with the same files: a layer in the engine, neither compressed nor synced; engine ${version}`,
      times.commit,
    ),
    slowerRow(
      'restore of it: the disk written anew, then a new container, until it takes commands',
      times.restore,
      '`docker rm -f`, then `docker run` of the committed image: no file is copied',
      times.runCommitted,
    ),
    slowerRow(
      'fork of it: snapshot, and a second sandbox with a disk of its own, until it takes commands',
      times.fork,
      '`docker commit`, then `docker run` of what it made',
      times.commitAndRun,
    ),
  ]
}

function makeTree(root: string): void {
  for (let folder = 0; folder < FOLDERS; folder++) {
    const path = join(root, String(folder))
    mkdirSync(path, { recursive: true })
    for (let file = 0; file < FILES / FOLDERS; file++)
      writeFileSync(join(path, String(file)), randomBytes(FILE_BYTES / 2).toString('hex'))
  }
}
