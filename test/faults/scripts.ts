/** Runs the scripts in this folder as separate processes, and collects the lines that they print. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { NODE } from '../craik.ts'

export interface Script {
  readonly process: ChildProcess
  /** Contains complete lines only, without a line that a killed process had not finished. */
  readonly lines: string[]
  stderr: string
  readonly closed: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
}

export function startScript(script: URL, args: readonly string[], onLine?: (line: string) => void): Script {
  const process = spawn(NODE, [script.pathname, ...args], { stdio: 'pipe' })
  const closed = once(process, 'close').then(([code, signal]) => ({ code, signal }))
  const started: Script = { process, lines: [], stderr: '', closed }
  let rest = ''
  process.stdin.on('error', () => {})
  process.stderr.on('data', (chunk) => {
    started.stderr += chunk
  })
  process.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      started.lines.push(line)
      onLine?.(line)
    }
  })
  return started
}

/** Resolves with the first line that satisfies `wanted`. Rejects when the script ends without one. */
export async function lineOf(script: Script, wanted: (line: string) => boolean): Promise<string> {
  for (;;) {
    const found = script.lines.find(wanted)
    if (found !== undefined) return found
    const next = await Promise.race([once(script.process.stdout!, 'data'), script.closed])
    if (!Array.isArray(next) && !script.lines.some(wanted))
      throw new Error(`the script ended (${next.code ?? next.signal}): ${script.stderr}`)
  }
}
