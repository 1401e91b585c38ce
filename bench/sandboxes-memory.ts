/** Measures the memory of an idle sandbox: that of its processes, and the part in the supervisor. */
import type { Row } from './measure.ts'
import {
  allProcesses,
  environmentOf,
  memoryOf,
  type ProcessMemory,
  withDescendants,
} from './process-memory.ts'
import { COMMAND, type Supervised } from './sandboxes-scene.ts'

const SANDBOXES = 8
const MB = 1e6
const SIDECAR_BUDGET_MB = 70
/** A variable in the environment of every process that the host starts for a sandbox. */
const MARKER = 'CRAIK_SANDBOX'

export async function memoryRows({ client }: Supervised): Promise<Row[]> {
  const supervisorBytes = async () => (await client.supervisor.status()).memory_bytes
  const ids: string[] = []
  const add = async () => {
    const { id } = await client.sandboxes.create({ isolation: 'process' })
    // The first command may load code that the idle sidecar then keeps.
    await client.sandboxes.exec(id, { argv: ['/bin/true'] })
    ids.push(id)
  }
  await add()
  const before = await supervisorBytes()
  for (let made = 1; made < SANDBOXES; made++) await add()
  const grown = (await supervisorBytes()) - before
  const families = ids.map((id) => familyOf(id))
  const sidecars = families.flatMap((family) =>
    family.filter(({ name }) => name === 'node' || name === 'MainThread'),
  )
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / ids.length / MB
  const [resident, shared] = [mean(sidecars.map(({ rss }) => rss)), mean(sidecars.map(({ pss }) => pss))]
  const whole = mean(families.flat().map(({ pss }) => pss))
  for (const id of ids) await client.sandboxes.delete(id)
  return [
    {
      what: `an idle sandbox: its sidecar’s resident memory (its share of it, ${SANDBOXES} running: ${shared.toFixed(1)} MB)`,
      against: `a budget of ${SIDECAR_BUDGET_MB} MB`,
      ours: `${resident.toFixed(1)} MB`,
      theirs: `${SIDECAR_BUDGET_MB} MB`,
      ratio: resident / SIDECAR_BUDGET_MB,
      bar: { atMost: 1 },
      command: COMMAND,
    },
    {
      what: 'an idle sandbox: the share of all its processes, and what the supervisor grows by',
      against: 'the sidecar’s share alone',
      ours: `${whole.toFixed(1)} MB, and ${(grown / (SANDBOXES - 1) / MB).toFixed(1)} MB`,
      theirs: `${shared.toFixed(1)} MB`,
      ratio: whole / shared,
      bar: undefined,
      command: COMMAND,
    },
  ]
}

/** Returns the processes on the host with the sandbox's variable, and their descendants. */
function familyOf(id: string): readonly ProcessMemory[] {
  return memoryOf(
    withDescendants(allProcesses().filter((pid) => environmentOf(pid).includes(`${MARKER}=${id}`))),
  )
}
