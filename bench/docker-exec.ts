/**
 * Times one small command in a container, over its boundary and through the API, against `docker exec` in the same
 * container.
 */
import type { SandboxId } from '../src/lib/ids.ts'
import { containerName } from '../src/sandboxes/backends/docker/container-names.ts'
import { runJob } from '../src/sdk/run-job.ts'
import { fasterRow, type PlainContainers, TRUE } from './docker-scene.ts'
import { type Row, timeInTurns } from './measure.ts'
import { drain } from './sandboxes-exec.ts'
import { type BareScene, jobId, never, type Supervised } from './sandboxes-scene.ts'

const ROUNDS = { warm: 5, counted: 80 }

export async function dockerExecRows(
  { engine }: PlainContainers,
  bare: BareScene,
  { client }: Supervised,
  sandbox: string,
): Promise<Row[]> {
  const spec = { kind: 'exec' as const, argv: TRUE }
  const times = await timeInTurns(ROUNDS, {
    boundary: async () => drain((await bare.boundary.jobs.start(jobId(), spec, never)).output),
    sdk: () => runJob(client, sandbox, spec, { jobId: jobId() }),
    docker: () => engine.docker('exec', containerName(sandbox as SandboxId), ...TRUE),
  })
  const against = `\`docker exec\` in the same container, engine ${engine.version}`
  return [
    fasterRow('exec of /bin/true in a container, over the boundary', times.boundary, against, times.docker, {
      atLeast: 25,
    }),
    fasterRow('the same through the API with the SDK, with its receipts', times.sdk, against, times.docker),
  ]
}
