/** Measures the memory of an idle container of Craik and of a plain one, each with the engine's helper process. */
import type { SandboxId } from '../src/lib/ids.ts'
import { containerName } from '../src/sandboxes/backends/docker/container-names.ts'
import { DOCKER_COMMAND, openContainer, type PlainContainers } from './docker-scene.ts'
import type { Row } from './measure.ts'
import { memoryOf, type ProcessMemory, parentOf, withDescendants } from './process-memory.ts'
import type { Supervised } from './sandboxes-scene.ts'

const EACH = 8
const MB = 1e6

export async function dockerMemoryRows(plain: PlainContainers, cold: Supervised): Promise<Row[]> {
  const sandboxes: string[] = []
  const containers: string[] = []
  for (let made = 0; made < EACH; made++) {
    sandboxes.push(await openContainer(cold))
    containers.push(await plain.idle())
  }
  const ours = await familiesOf(
    plain,
    sandboxes.map((id) => containerName(id as SandboxId)),
  )
  const theirs = await familiesOf(plain, containers)
  for (const id of sandboxes) await cold.client.sandboxes.delete(id)
  for (const container of containers) await plain.remove(container)
  const sidecars = ours.filter(({ name }) => name === 'node' || name === 'MainThread')
  if (sidecars.length !== EACH) throw new Error(`${sidecars.length} of ${EACH} sidecars were found`)
  const [whole, plainWhole] = [share(ours), share(theirs)]
  const row = {
    against: `the same of \`docker run … sleep\` of the same image, engine ${plain.engine.version}`,
    theirs: `${plainWhole.toFixed(1)} MB`,
    bar: undefined,
    command: DOCKER_COMMAND,
  }
  return [
    {
      ...row,
      what: `an idle container: the share of all its processes and the engine’s helper, ${EACH} of each running`,
      ours: `${whole.toFixed(1)} MB`,
      ratio: whole / plainWhole,
    },
    {
      ...row,
      what: 'of that, its sidecar',
      against: 'all of the plain container',
      ours: `${share(sidecars).toFixed(1)} MB`,
      ratio: share(sidecars) / plainWhole,
    },
  ]
}

/** Returns the first process of each container, its descendants, and the helper that the engine started for it. */
async function familiesOf(
  { engine }: PlainContainers,
  names: readonly string[],
): Promise<readonly ProcessMemory[]> {
  const message = await engine.docker('inspect', '--format', '{{.State.Pid}}', ...names)
  const first = message.trim().split('\n').map(Number)
  return memoryOf(withDescendants(first.map(parentOf)))
}

/** Returns the megabytes of each container. A page that several processes share counts in parts. */
function share(held: readonly ProcessMemory[]): number {
  return held.reduce((sum, { pss }) => sum + pss, 0) / EACH / MB
}
