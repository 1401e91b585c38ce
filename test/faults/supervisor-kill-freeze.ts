/** Tells a test that stands still from one that is slow, and which part of it stands where. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** Something that has to come to its end. */
export interface Moving {
  readonly name: string
  readonly done: Promise<unknown>
  /** Another text whenever it has got any further. */
  where(): string
}

interface StallOptions {
  /** For all of it. */
  readonly limitMs: number
  /** Aborts when nobody has to be told any more. */
  readonly until: AbortSignal
  /** What else there is to say, such as of processes. */
  readonly evidence: () => string
  readonly stillMs?: number
  readonly lookMs?: number
}

/** Longer than every patience of what is tested: what gives up by itself has told why by then. */
const STILL_MS = 150_000
const LOOK_MS = 1_000

/** Rejects when a part that is not at its end does not move for so long, or the time is over. Resolves at `until`. */
export async function watchForStall(parts: readonly Moving[], options: StallOptions): Promise<void> {
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

/** Each process that names one of these, and all below it: what it waits for in the kernel. */
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
    // After the name, which may hold anything: state and parent.
    const [state, parent] = read('stat').split(') ').at(-1)!.split(' ')
    const line = `process ${pid} (${state}, in ${read('wchan') || 'no call'}): ${command.slice(0, 120)}`
    return { pid, parent: parent!, text: `${command} ${read('environ')}`, line }
  } catch {
    // It went while it was looked at.
    return undefined
  }
}
