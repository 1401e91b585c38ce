/** Connects to a sidecar that listens in its container. Each connection is one engine exec of a relay to it. */
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type { Exec } from 'dockerode'
import { CraikError } from '../../../errors.ts'
import { WriteBehind } from '../../../lib/write-behind.ts'
import { INSIDE, LIMITS } from '../../../sidecar/protocol.ts'
import type { DialledStream } from '../../backend.ts'
import type { Engines } from './engines.ts'
import type { DockerHandle } from './handle.ts'
import { RelayStream } from './relay-stream.ts'

const DEADLINE_MS = 30_000
/** Few threads and little memory, because both count toward the sandbox's limits. */
const RELAY = [
  `${INSIDE.runtime}/node`,
  '--max-semi-space-size=1',
  '--v8-pool-size=0',
  `${INSIDE.runtime}/relay.mjs`,
]

export function dialRelay(
  engines: Engines,
  { engine: engineId, container }: DockerHandle,
  until: AbortSignal,
): Promise<DialledStream> {
  return engines.with(engineId, (engine) =>
    engine.ask(
      'connect to a sandbox',
      async (signal) => {
        const exec = await engine.docker.getContainer(container).exec({
          Cmd: RELAY,
          WorkingDir: '/',
          AttachStdin: true,
          AttachStdout: true,
          AttachStderr: true,
          Tty: false,
          DetachKeys: neverContains(),
        })
        signal.throwIfAborted()
        const raw = await startAttached(exec, signal)
        if (signal.aborted) raw.destroy()
        if (raw.destroyed) throw new CraikError('boundary_failed', 'the connection to a sandbox was lost')
        // Podman does not read from the host while it writes to it, so the host must not block on writing.
        return new RelayStream(new WriteBehind(raw, LIMITS.waitingBytes))
      },
      { deadlineMs: DEADLINE_MS, signal: until },
    ),
  )
}

/**
 * Returns random detach keys that the data never contains. Podman looks for detach keys even without a terminal, and by
 * default it uses two bytes that any data can contain.
 */
function neverContains(): string {
  return [...randomBytes(16).toString('hex')].join(',')
}

/**
 * The engine's client never closes the request of a connection that is to stay open. A refused one would stay open and
 * keep this process alive.
 */
async function startAttached(exec: Exec, signal: AbortSignal): Promise<Duplex> {
  const failed = new AbortController()
  try {
    const abortSignal = AbortSignal.any([signal, failed.signal])
    return await exec.start({ hijack: true, stdin: true, abortSignal })
  } catch (error) {
    failed.abort()
    throw error
  }
}
