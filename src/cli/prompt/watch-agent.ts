/** Checks at intervals, while an agent works, whether the models that it calls answer at all. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ModelWatch, Retrying } from '../../run/prompts/model-watch.ts'

const WATCH_MS = 500

/**
 * `giveUp` aborts with the reason why the agent should stop. This reason explains more than the agent's own words, so
 * it is thrown in any case, even if the agent reports a success. After a cancellation it is not thrown. `onRetry`
 * receives each try that was not answered, so that the user sees why the prompt waits.
 */
export async function watchAgent<T extends { readonly stopReason: string }>(
  watch: ModelWatch,
  isCancelled: () => boolean,
  work: (giveUp: AbortSignal) => Promise<T>,
  onRetry?: (retrying: Retrying) => void,
): Promise<T> {
  try {
    const end = await waitWhileWatching(watch, work, onRetry)
    const trouble = end.stopReason === 'cancelled' ? undefined : await watch.last()
    if (trouble !== undefined) throw trouble
    return end
  } catch (thrown) {
    throw (isCancelled() ? undefined : await watch.last()) ?? thrown
  }
}

async function waitWhileWatching<T>(
  watch: ModelWatch,
  work: (giveUp: AbortSignal) => Promise<T>,
  onRetry: ((retrying: Retrying) => void) | undefined,
): Promise<T> {
  const giveUp = new AbortController()
  const over = new AbortController()
  let reported = 0
  const look = async () => {
    while (!over.signal.aborted) {
      await sleep(WATCH_MS, undefined, { signal: over.signal }).catch(() => {})
      const trouble = over.signal.aborted ? undefined : await watch.look()
      if (trouble !== undefined) return giveUp.abort(trouble)
      const { retrying } = watch
      if (retrying !== undefined && retrying.tries !== reported) onRetry?.(retrying)
      reported = retrying?.tries ?? 0
    }
  }
  const looks = look()
  try {
    return await work(giveUp.signal)
  } finally {
    over.abort()
    await looks
  }
}
