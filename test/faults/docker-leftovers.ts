/** Finds what is left after all sandboxes are deleted: on the host, in the engine, in the home and in its database. */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { homeFilter } from '../../src/sandboxes/backends/docker/container-names.ts'
import { openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import type { ApiClient } from '../../src/sdk/client.ts'
import { homeAt } from '../../src/store/home.ts'
import type { TestEngine } from '../engine.ts'
import type { SandboxHome } from '../sandbox-home.ts'

const POLL_MS = 100

/**
 * Returns what is left of every sandbox that this home ever had. The home has the engine to itself, and its supervisor
 * does not run. An engine that is killed while it starts a container leaves its monitor process for that container and
 * an empty control group, which hold nothing.
 */
export async function leftoversOf(home: SandboxHome, engine: TestEngine): Promise<readonly string[]> {
  const { docker } = await openEngine(process.env)
  const filters = { label: [homeFilter(home.home)] }
  const containers = await docker.listContainers({ all: true, filters })
  const { Volumes: volumes } = await docker.listVolumes({ filters })
  return [
    ...containers.map(({ Id, Labels }) => `container ${Id} of ${Labels['craik.sandbox']}`),
    ...(volumes ?? []).map(({ Name }) => `volume ${Name}`),
    ...findInFolders(home),
    ...findInDatabase(home),
    ...engine.listProcesses().map((pid) => `process ${pid} in a container`),
    ...findOnHost(home.home),
  ]
}

/**
 * Waits until every warm instance belongs to the current supervisor, which removes those of a killed one in the
 * background.
 */
export async function requireOnlyOwnInstances(home: SandboxHome, client: ApiClient): Promise<void> {
  for (;;) {
    const { warm } = await client.supervisor.status()
    if (countRows(home, ['warm_places'])[0] === warm) return
    await sleep(POLL_MS)
  }
}

function findInFolders(home: SandboxHome): string[] {
  const { sandboxes, snapshots } = homeAt(home.home)
  return [sandboxes, snapshots].flatMap((folder) =>
    (existsSync(folder) ? readdirSync(folder) : []).map((name) => `folder ${join(folder, name)}`),
  )
}

function findInDatabase(home: SandboxHome): string[] {
  const tables = ['sandboxes', 'snapshots', 'warm_places', 'open_receipts', 'sandbox_jobs']
  return countRows(home, tables).flatMap((count, n) => (count === 0 ? [] : [`${count} rows in ${tables[n]}`]))
}

function countRows(home: SandboxHome, tables: readonly string[]): number[] {
  const database = new DatabaseSync(homeAt(home.home).database, { readOnly: true })
  try {
    return tables.map(
      (table) =>
        (database.prepare(`SELECT count(*) AS count FROM ${table}`).get() as { count: number }).count,
    )
  } finally {
    database.close()
  }
}

/** Searches the mounts and processes of every process, because a mount lives as long as any namespace has it. */
function findOnHost(home: string): string[] {
  const mentionsHome = (text: string) => text.includes(home)
  const linesOf = (path: string, kind: string) =>
    readIfThere(path)
      .split('\n')
      .filter(mentionsHome)
      .map((line) => `${kind} ${line.slice(0, 300)}`)
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  return [
    ...new Set(pids.flatMap((pid) => linesOf(`/proc/${pid}/mountinfo`, 'mount'))),
    ...pids.flatMap((pid) => {
      const command = readIfThere(`/proc/${pid}/cmdline`).replaceAll('\0', ' ')
      const isOurs = mentionsHome(`${command} ${readIfThere(`/proc/${pid}/environ`)}`)
      return isOurs ? [`process ${pid}: ${command.slice(0, 300)}`] : []
    }),
    ...linesOf('/proc/net/unix', 'socket'),
    ...globSync('/sys/block/loop*/loop/backing_file').flatMap((file) => linesOf(file, 'loop device of')),
  ]
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
