/** Waits until a container runs no more. An engine that does not answer says nothing about that: then it is asked again. */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { isGone } from './engine/ask.ts'
import type { Engine } from './engine/engine.ts'
import type { Engines } from './engines.ts'
import type { DockerHandle } from './handle.ts'

const MIN_PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000
/** Notices a remote engine that is gone without a word. */
const KEEP_ALIVE_MS = 30_000

/** Says why it ended; undefined when nobody wants to know any more. */
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
      // Silence, or an answer that tells nothing.
    }
    await sleep(pauseMs, undefined, { signal: until, ref: false }).catch(() => {})
  }
  return undefined
}

/** Undefined while it runs. */
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

/** One long question, over a connection that keeps no process running. The engine's client never notices its end. */
function waitOnce(engine: Engine, container: string, until: AbortSignal): Promise<void> {
  const { socketPath, host, port, protocol, ca, cert, key } = engine.options
  const send = protocol === 'https' ? httpsRequest : httpRequest
  return new Promise((done, fail) => {
    const asked = send(
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
    asked.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS).unref())
    asked.on('error', fail)
    asked.end()
  })
}
