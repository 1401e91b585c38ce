/** Creates and removes a sandbox's engine volumes, only when their labels say that they belong to it. */
import { CraikError } from '../../../errors.ts'
import type { SandboxId } from '../../../lib/ids.ts'
import { isOurs, labelsOf, sandboxFilters } from './container-names.ts'
import type { Engine } from './engine/engine.ts'
import { isGone } from './engine/engine-request.ts'

/**
 * Creates a volume. The engine fills an empty one with the image's files at its first mount point, including the owner.
 */
export async function makeVolume(
  engine: Engine,
  name: string,
  id: SandboxId,
  craikHome: string,
): Promise<void> {
  const { Labels } = await engine.ask('create a volume', async () => {
    await engine.docker.createVolume({ Name: name, Labels: labelsOf(id, craikHome) })
    return engine.docker.getVolume(name).inspect()
  })
  if (isOurs(Labels, id, craikHome)) return
  throw new CraikError('conflict', `the engine’s volume ${name} does not belong to this sandbox`, {
    hint: `inspect the volume:  docker volume inspect ${name}`,
  })
}

export async function removeVolume(
  engine: Engine,
  name: string,
  id: SandboxId,
  craikHome: string,
): Promise<void> {
  const volume = engine.docker.getVolume(name)
  try {
    const { Labels } = await engine.ask('inspect a volume', () => volume.inspect())
    if (isOurs(Labels, id, craikHome)) await engine.ask('remove a volume', () => volume.remove())
  } catch (error) {
    if (!isGone(error)) throw error
  }
}

/** Removes all volumes of a sandbox, including those that no record names. */
export async function removeVolumes(engine: Engine, id: SandboxId, craikHome: string): Promise<void> {
  const { Volumes } = await engine.ask('list volumes', () =>
    engine.docker.listVolumes({ filters: { label: sandboxFilters(id, craikHome) } }),
  )
  for (const { Name } of Volumes ?? []) await removeVolume(engine, Name, id, craikHome)
}
