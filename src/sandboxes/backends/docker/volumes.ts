/** The engine's volumes of a sandbox: made and removed only when their labels say that they are its own. */
import { CraikError } from '../../../errors.ts'
import type { SandboxId } from '../../../lib/ids.ts'
import { isGone } from './engine/ask.ts'
import type { Engine } from './engine/engine.ts'
import { isOurs, labelsOf, sandboxFilters } from './names.ts'

/** The engine fills an empty one with what the image has where it is mounted first, its owner included. */
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
    hint: `inspect it:  docker volume inspect ${name}`,
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

/** All that there are, also those that nothing names any more. */
export async function removeVolumes(engine: Engine, id: SandboxId, craikHome: string): Promise<void> {
  const { Volumes } = await engine.ask('list volumes', () =>
    engine.docker.listVolumes({ filters: { label: sandboxFilters(id, craikHome) } }),
  )
  for (const { Name } of Volumes ?? []) await removeVolume(engine, Name, id, craikHome)
}
