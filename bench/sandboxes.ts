/**
 * Measures sandboxes: commands, terminals, files, starts and memory, each against the host or a container without
 * Craik.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { openDocker } from './docker-engine.ts'
import { type Row, TemporaryFolder } from './measure.ts'
import { execRows } from './sandboxes-exec.ts'
import { fileRows } from './sandboxes-files.ts'
import { memoryRows } from './sandboxes-memory.ts'
import { bareScenes, buildCraik, openManaged, openSupervised } from './sandboxes-scene.ts'
import { startRows } from './sandboxes-start.ts'
import { terminalRows } from './sandboxes-terminal.ts'

export async function sandboxRows(): Promise<Row[]> {
  buildCraik()
  using folder = new TemporaryFolder()
  const at = (name: string) => {
    mkdirSync(join(folder.path, name), { mode: 0o700 })
    return join(folder.path, name)
  }
  await using docker = await openDocker(at('docker'))
  await using supervised = await openSupervised(join(folder.path, 'home'), folder.path)
  const open = bareScenes(at('bare'))
  const rows: Row[] = []
  const say = (what: string) => console.error(`    ${what} …`)
  {
    await using bare = await open()
    await using managed = await openManaged(at('managed'))
    const { id: sandbox } = await supervised.client.sandboxes.create({ isolation: 'process' })
    const layers = { bare, managed, supervised, sandbox }
    say('exec')
    rows.push(...(await execRows(layers, docker)))
    say('terminals')
    rows.push(...(await terminalRows(layers)))
    say('files')
    rows.push(...(await fileRows(layers, docker, folder.path)))
    await supervised.client.sandboxes.delete(sandbox)
  }
  say('starts')
  rows.push(...(await startRows(open, bareScenes(at('unisolated'), 'none'), supervised, docker)))
  say('memory')
  rows.push(...(await memoryRows(supervised)))
  return rows
}
