/** Measures sandboxes in containers, each beside the docker command with the same image on the same engine. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { dockerBackend } from '../src/sandboxes/backends/docker/backend.ts'
import { openDocker } from './docker-engine.ts'
import { dockerExecRows } from './docker-exec.ts'
import { dockerFileRows } from './docker-files.ts'
import { dockerMemoryRows } from './docker-memory.ts'
import { DOCKER_COMMAND, openContainer, type PlainContainers, plainContainers } from './docker-scene.ts'
import { dockerSnapshotRows } from './docker-snapshots.ts'
import { dockerStartRows } from './docker-start.ts'
import { type Row, TemporaryFolder } from './measure.ts'
import { type BareScene, buildCraik, HOST_USER, openScene, openSupervised } from './sandboxes-scene.ts'

export async function dockerRows(): Promise<Row[]> {
  buildCraik()
  using folder = new TemporaryFolder()
  const at = (name: string) => {
    mkdirSync(join(folder.path, name), { mode: 0o700 })
    return join(folder.path, name)
  }
  await using docker = await openDocker(at('docker'))
  if ('missing' in docker) return [nothing(docker.missing)]
  const plain = await plainContainers(docker, at('image'))
  const engine = docker.address
  await using cold = await openSupervised(join(folder.path, 'cold'), folder.path, { engine, warm: 0 })
  const rows: Row[] = []
  const say = (what: string) => console.error(`    ${what} …`)
  {
    await using bare = await bareContainer(at('bare'), plain)
    const sandbox = await openContainer(cold)
    say('exec')
    rows.push(...(await dockerExecRows(plain, bare, cold, sandbox)))
    say('files')
    rows.push(...(await dockerFileRows(plain, bare, cold, sandbox, folder.path)))
    await cold.client.sandboxes.delete(sandbox)
  }
  {
    await using warm = await openSupervised(join(folder.path, 'warm'), folder.path, { engine, warm: 1 })
    say('starts')
    rows.push(...(await dockerStartRows(plain, cold, warm)))
  }
  say('snapshots')
  rows.push(...(await dockerSnapshotRows(plain, cold, folder.path)))
  say('memory')
  rows.push(...(await dockerMemoryRows(plain, cold)))
  return rows
}

async function bareContainer(home: string, { engine }: PlainContainers): Promise<BareScene> {
  const backend = dockerBackend({ craikHome: home, environment: { CRAIK_ENGINE: engine.address } })
  const container = await backend.plan!({ line: 'socket' })
  return openScene(home, backend, { isolation: 'container', hostUser: HOST_USER, container })
}

function nothing(missing: string): Row {
  const against = 'the docker command'
  const row = { ours: '–', ratio: undefined, bar: undefined, command: DOCKER_COMMAND }
  return { what: 'sandboxes in containers', against, theirs: missing, ...row }
}
