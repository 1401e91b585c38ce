/** Removes what the engine holds for a sandbox, whoever left it there: found by its labels and its name. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ContainerInspectInfo } from 'dockerode'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { OtherHome, SandboxSpec } from '../../backend.ts'
import { faultOf, isGone } from './engine/ask.ts'
import type { Engine } from './engine/engine.ts'
import { endForgotten, endMonitors } from './forgotten.ts'
import { containerName, homeFilter, isOurs, sandboxIn, spillVolume } from './names.ts'
import { removeVolume } from './volumes.ts'

const REMOVE_DEADLINE_MS = 60_000
const PAUSE_MS = 250

/**
 * All containers of the sandbox, and its volume for output; its disk stays. Idempotent. With them go those of this home
 * whose sandbox has no folder any more: an engine finishes what a process asked for that was killed meanwhile. One of
 * another home that has the name is not touched: that home is returned.
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
  return named === undefined || isNamedOurs ? undefined : { path: homeShownIn(named) }
}

/** Where the folders of its sandbox are, if it has any on this machine. */
function homeShownIn({ Mounts }: ContainerInspectInfo): string | undefined {
  const source = Mounts.find(({ Destination }) => Destination === INSIDE.home)?.Source
  return /^(\/.+)\/sandboxes\/[A-Za-z0-9_]+\/data\/home$/.exec(source ?? '')?.[1]
}

/** Which home has the container of this sandbox's name, when that is not this one. */
export async function homeOfContainer(
  engine: Engine,
  id: SandboxSpec['id'],
  craikHome: string,
): Promise<OtherHome | undefined> {
  const named = await containerCalled(engine, containerName(id))
  const isOther = named !== undefined && !isOurs(named.Config.Labels, id, craikHome)
  return isOther ? { path: homeShownIn(named) } : undefined
}

/** A list may leave out one that is being made. */
async function containerCalled(engine: Engine, name: string): Promise<ContainerInspectInfo | undefined> {
  try {
    return await engine.ask('inspect a container', () => engine.docker.getContainer(name).inspect())
  } catch (error) {
    if (isGone(error)) return undefined
    throw error
  }
}

/** Nothing of it runs afterwards, also not what its engine has forgotten. */
export async function removeContainer(engine: Engine, container: string): Promise<void> {
  await askToRemove(engine, container)
  if (!engine.sharesFolders) return
  await (engine.product === 'docker' ? endForgotten(container) : endMonitors(container))
}

/** An engine that is busy with it, or finds its mounts busy, is asked again. */
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
