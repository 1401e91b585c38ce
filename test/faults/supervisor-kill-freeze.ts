/** Distinguishes a stalled test from a slow one, and reports the position of each part. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** A part of a test that must end. */
export interface WatchedPart {
  readonly name: string
  readonly done: Promise<unknown>
  /** Returns a different text whenever the part has made progress. */
  where(): string
}

interface StallOptions {
  /** The time limit for all parts together. */
  readonly limitMs: number
  /** Aborts when a stall no longer needs to be reported. */
  readonly until: AbortSignal
  /** Returns more information for the error, such as the processes. */
  readonly evidence: () => string
  readonly stillMs?: number
  readonly lookMs?: number
}

/** Longer than every timeout in the tested code, which has reported its own error by then. */
const STILL_MS = 150_000
const LOOK_MS = 1_000

/**
 * Rejects when a part that has not ended makes no progress for `stillMs`, or when the time is over. Resolves at
 * `until`.
 */
export async function watchForStall(parts: readonly WatchedPart[], options: StallOptions): Promise<void> {
  const { limitMs, until, evidence, stillMs = STILL_MS, lookMs = LOOK_MS } = options
  const beganMs = performance.now()
  const seen = parts.map((part) => ({ part, where: part.where(), sinceMs: beganMs, over: false }))
  for (const one of seen) {
    const end = () => {
      one.over = true
    }
    one.part.done.then(end, end)
  }
  for (;;) {
    await sleep(lookMs, undefined, { signal: until }).catch(() => {})
    if (until.aborted) return
    const nowMs = performance.now()
    for (const one of seen) {
      const where = one.part.where()
      if (where !== one.where) Object.assign(one, { where, sinceMs: nowMs })
    }
    const still = seen.filter(({ over, sinceMs }) => !over && nowMs - sinceMs >= stillMs)
    if (still.length === 0 && nowMs - beganMs < limitMs) continue
    const what =
      still.length > 0
        ? `${still.map(({ part }) => part.name).join(', ')} stands still`
        : `not at its end after ${Math.round(limitMs / 1000)} s`
    const message = seen.map(({ part, where, sinceMs, over }) => {
      const how = over ? 'is over' : `has not moved for ${Math.round((nowMs - sinceMs) / 1000)} s`
      return `${part.name} ${how}: ${where}`
    })
    throw new Error([what, ...message, evidence()].join('\n'))
  }
}

/**
 * Returns each process that contains one of the names, with its descendants and the kernel function in which it waits.
 */
export function processesBelow(names: readonly string[]): string {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => readProcess(pid) ?? [])
  const chosen = new Set(all.filter(({ text }) => names.some((name) => text.includes(name))))
  for (let before = -1; before !== chosen.size; ) {
    before = chosen.size
    const pids = new Set([...chosen].map(({ pid }) => pid))
    for (const one of all) if (pids.has(one.parent)) chosen.add(one)
  }
  return [...chosen].map(({ line }) => line).join('\n')
}

function readProcess(pid: string) {
  try {
    const read = (file: string) => readFileSync(`/proc/${pid}/${file}`, 'latin1')
    const command = read('cmdline')
      .replace(/[\0\s]+/g, ' ')
      .trim()
    // The state and the parent follow the name, which can contain any character.
    const [state, parent] = read('stat').split(') ').at(-1)!.split(' ')
    const line = `process ${pid} (${state}, in ${read('wchan') || 'no call'}): ${command.slice(0, 120)}`
    return { pid, parent: parent!, text: `${command} ${read('environ')}`, line }
  } catch {
    // The process exited in the meantime.
    return undefined
  }
}
