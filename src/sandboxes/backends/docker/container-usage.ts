/**
 * Measures what a container uses: from its control groups where the host can see them, otherwise from the engine's
 * statistics.
 */
import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { z } from 'zod'
import { ownerOf } from '../../../lib/owner.ts'
import type { ObservedUse } from '../../backend.ts'
import { type Cgroups, parseMountedControllers, SandboxCgroup } from '../process/cgroups.ts'
import { observeProcesses } from '../process/instance-processes.ts'
import type { Engine } from './engine/engine.ts'
import type { DockerHandle } from './handle.ts'

const figure = z.number().nonnegative().nullish()
const statsSchema = z.object({
  memory_stats: z.object({ usage: figure }).nullish(),
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: figure }).nullish() }).nullish(),
  pids_stats: z.object({ current: figure }).nullish(),
})

export async function observeContainer(engine: Engine, handle: DockerHandle): Promise<ObservedUse> {
  if (!engine.sharesFolders) return askForUse(engine, handle)
  const seen = cgroupOf(handle)?.observe()
  if (seen?.memoryBytes !== undefined) return seen
  if (engine.holds.memory) return askForUse(engine, handle)
  // Without a cgroup of its own, the engine's numbers describe the whole machine.
  const first = ownerOf(handle.pid)
  return first === undefined ? {} : observeProcesses(first)
}

/**
 * Returns the container's cgroup on this machine. It checks the container's id, because its first process's number can
 * belong to another process by then.
 */
function cgroupOf({ pid, container }: DockerHandle): SandboxCgroup | undefined {
  const groups = readIfThere(`/proc/${pid}/cgroup`)
  const { v1, v2 } = parseMountedControllers(readFileSync('/proc/self/mountinfo', 'utf8'))
  const folders = new Map<string, string>()
  for (const line of groups.split('\n')) {
    const [, names = '', path = ''] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? []
    if (!path.includes(container) || path.split('/').includes('..')) continue
    if (names === '' && v2 !== undefined) folders.set('v2', join(v2, path))
    for (const name of names.split(',').filter(Boolean)) {
      const root = v1.get(name)
      if (root !== undefined) folders.set(name, join(root, path))
    }
  }
  const version = folders.has('memory') ? 1 : 2
  const first = folders.get(version === 1 ? 'memory' : 'v2')
  if (first === undefined) return undefined
  const parentOf = (controller: string) => dirname(folders.get(controller) ?? first)
  const parents: Cgroups['parents'] = {
    memory: parentOf('memory'),
    pids: parentOf('pids'),
    cpu: parentOf('cpu'),
    cpuacct: parentOf('cpuacct'),
  }
  return new SandboxCgroup({ version, parents }, basename(first))
}

async function askForUse(engine: Engine, { container }: DockerHandle): Promise<ObservedUse> {
  const answer = await engine.ask('read the statistics of a container', () =>
    engine.docker.getContainer(container).stats({ stream: false, 'one-shot': true }),
  )
  const { memory_stats, cpu_stats, pids_stats } = statsSchema.parse(answer)
  const [memoryBytes, cpuNs, processes] = [
    memory_stats?.usage,
    cpu_stats?.cpu_usage?.total_usage,
    pids_stats?.current,
  ]
  // Where the engine enforces no limit, it counts nothing or the whole machine.
  const { holds } = engine
  return {
    ...(holds.memory && memoryBytes && { memoryBytes }),
    ...(holds.cpu && cpuNs && { cpuMs: Math.round(cpuNs / 1e6) }),
    ...(holds.processes && processes && { processes }),
  }
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
