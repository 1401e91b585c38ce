import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Waits. When the signal aborts, rejects with its reason, such as an interruption by the user. Node's own function
 * rejects with an `AbortError`, which a command would report as an internal error.
 */
export async function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep(ms, undefined, signal && { signal }).catch((error) => {
    signal?.throwIfAborted()
    throw error
  })
}
