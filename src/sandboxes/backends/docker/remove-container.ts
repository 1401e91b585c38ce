/** Removes a sandbox's objects from the engine, whichever process left them. Finds them by label and name. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ContainerInspectInfo } from 'dockerode'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { OtherHome, SandboxSpec } from '../../backend.ts'
import { containerName, homeFilter, isOurs, sandboxIn, spillVolume } from './container-names.ts'
import type { Engine } from './engine/engine.ts'
import { faultOf, isGone } from './engine/engine-request.ts'
import { removeVolume } from './engine-volumes.ts'
import { endForgotten, endMonitors } from './orphan-processes.ts'

const REMOVE_DEADLINE_MS = 60_000
const PAUSE_MS = 250

/**
 * Removes all containers of the sandbox and its volume for output, but not its disk. Idempotent. It also removes
 * containers of this home whose sandbox has no folder, because an engine finishes requests of a process that was killed
 * in the meantime. If a container with that name belongs to another home, it stays, and the function returns that home.
 */
export async function removeContainers(
  engine: Engine,
  { id, folder }: Pick<SandboxSpec, 'id' | 'folder'>,
  craikHome: string,
): Promise<OtherHome | undefined> {
  const [all, named] = await Promise.all([
    engine.ask('list containers', () =>
      engine.docker.listContainers({ all: true, filters: { label: [homeFilter(craikHome)] } }),
    ),
    containerCalled(engine, containerName(id)),
  ])
  const found = all.filter(({ Labels }) => {
    const sandbox = sandboxIn(Labels)
    return sandbox === id || (sandbox !== undefined && !existsSync(join(dirname(folder), sandbox)))
  })
  const isNamedOurs = named !== undefined && isOurs(named.Config.Labels, id, craikHome)
  const ids = new Set([...found.map(({ Id }) => Id), ...(isNamedOurs ? [named.Id] : [])])
  for (const one of ids) await removeContainer(engine, one)
  await removeVolume(engine, spillVolume(id), id, craikHome)
  return named === undefined || isNamedOurs ? undefined : { path: homeMountedIn(named) }
}

/** Returns the Craik home that the container's mounts reveal, if it is on this machine. */
function homeMountedIn({ Mounts }: ContainerInspectInfo): string | undefined {
  const source = Mounts.find(({ Destination }) => Destination === INSIDE.home)?.Source
  return /^(\/.+)\/sandboxes\/[A-Za-z0-9_]+\/data\/home$/.exec(source ?? '')?.[1]
}

/** Returns the home that owns the container of this name, if it is another one. */
export async function homeOfContainer(
  engine: Engine,
  id: SandboxSpec['id'],
  craikHome: string,
): Promise<OtherHome | undefined> {
  const named = await containerCalled(engine, containerName(id))
  const isOther = named !== undefined && !isOurs(named.Config.Labels, id, craikHome)
  return isOther ? { path: homeMountedIn(named) } : undefined
}

/** A list can omit a container that the engine is creating. */
async function containerCalled(engine: Engine, name: string): Promise<ContainerInspectInfo | undefined> {
  try {
    return await engine.ask('inspect a container', () => engine.docker.getContainer(name).inspect())
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/** Removes a container. Afterwards none of its processes run, including those that the engine has forgotten. */
export async function removeContainer(engine: Engine, container: string): Promise<void> {
  await askToRemove(engine, container)
  if (!engine.sharesFolders) return
  await (engine.product === 'docker' ? endForgotten(container) : endMonitors(container))
}

/** Retries when the engine is busy with the container, or its mounts are busy. */
async function askToRemove(engine: Engine, container: string): Promise<void> {
  const endsMs = performance.now() + REMOVE_DEADLINE_MS
  for (;;) {
    try {
      await engine.ask(
        'remove a container',
        () => engine.docker.getContainer(container).remove({ force: true, v: true }),
        { deadlineMs: REMOVE_DEADLINE_MS },
      )
      return
    } catch (error) {
      if (isGone(error)) return
      if (faultOf(error) !== 'refused' || performance.now() > endsMs) throw error
    }
    await sleep(PAUSE_MS)
  }
}
