/** Waits until a container stops. An engine that does not answer proves nothing, so the wait retries. */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from './engine/engine.ts'
import { isGone } from './engine/engine-request.ts'
import type { Engines } from './engines.ts'
import type { DockerHandle } from './handle.ts'

const MIN_PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000
/** Detects a remote engine that disappeared without closing the connection. */
const KEEP_ALIVE_MS = 30_000

/** Returns why the container stopped. `undefined` when the caller cancelled. */
export async function whenEnded(
  engines: Engines,
  handle: DockerHandle,
  until: AbortSignal,
): Promise<string | undefined> {
  for (let pauseMs = MIN_PAUSE_MS; !until.aborted; pauseMs = Math.min(MAX_PAUSE_MS, pauseMs * 2)) {
    try {
      const ended = await engines.with(handle.engine, async (engine) => {
        const before = await endOf(engine, handle)
        if (before !== undefined) return before
        await waitOnce(engine, handle.container, until)
        pauseMs = MIN_PAUSE_MS
        return endOf(engine, handle)
      })
      if (ended !== undefined) return ended
    } catch {
      // The engine did not answer, or its answer said nothing.
    }
    await sleep(pauseMs, undefined, { signal: until, ref: false }).catch(() => {})
  }
  return undefined
}

/** Undefined while the container runs. */
async function endOf(engine: Engine, handle: DockerHandle): Promise<string | undefined> {
  try {
    const { State: state } = await engine.ask('inspect a container', () =>
      engine.docker.getContainer(handle.container).inspect(),
    )
    const isSame = state.StartedAt === handle.startedAt
    if (isSame && (state.Running || state.Paused || state.Restarting)) return undefined
    if (!isSame) return 'its container was restarted outside Craik'
    if (state.OOMKilled) return 'its sidecar was killed because memory ran out'
    return `its container exited (exit code ${state.ExitCode})`
  } catch (error) {
    if (isGone(error)) return 'its container was removed'
    throw error
  }
}

/**
 * Sends one long request on a connection that does not keep this process alive. The engine's client never notices when
 * such a connection ends.
 */
function waitOnce(engine: Engine, container: string, until: AbortSignal): Promise<void> {
  const { socketPath, host, port, protocol, ca, cert, key } = engine.options
  const send = protocol === 'https' ? httpsRequest : httpRequest
  return new Promise((done, fail) => {
    const request = send(
      {
        ...(socketPath === undefined ? { host, port, ca, cert, key } : { socketPath }),
        method: 'POST',
        path: `/containers/${container}/wait?condition=not-running`,
        agent: false,
        signal: until,
      },
      (answer) => {
        answer.on('error', fail)
        answer.on('close', () => done())
        answer.resume()
      },
    )
    request.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS).unref())
    request.on('error', fail)
    request.end()
  })
}
