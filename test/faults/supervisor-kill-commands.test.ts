/** The same through the command line: `exec`, `shell` and `cp` continue as if nothing had happened. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, createReadStream, openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import * as pty from '@lydell/node-pty'
import { describe, expect, it } from 'vitest'
import { canBe, EVERY_IDENTITY, SandboxHome } from '../sandbox-home.ts'
import { createRandom, SEED, SupervisorKiller } from './supervisor-kill.ts'
import { ExpectedBytes, keystream, sha256Of } from './supervisor-kill-bytes.ts'
import { requireWholeLog, withEvidence } from './supervisor-kill-receipts.ts'
import {
  CountedLines,
  ECHO_PROGRAM,
  inputOf,
  KEYS_PROGRAM,
  NODE_INSIDE,
  TypedKeys,
} from './supervisor-kill-workload.ts'

const KILLS = process.env.CRAIK_SOAK === '1' ? 30 : 5
const LIMIT_MS = 1_200_000
const BYTES = 128 * 1024 * 1024

/** Processes that are killed when the test fails, because each would start another supervisor. */
type Started = { kill(signal: 'SIGKILL'): unknown }[]

describe.each(EVERY_IDENTITY)('as %s', (identity) => {
  it.runIf(canBe(identity))(
    `commands continue while the supervisor is killed ${KILLS} times (seed ${SEED})`,
    { timeout: LIMIT_MS },
    async () => {
      const random = createRandom(SEED)
      await using home = await SandboxHome.open({ identity })
      const sandbox = await home.create()
      makeFile(home, 'file')
      const over = new AbortController()
      const started: Started = []
      const [echoed, typed] = [new ExpectedBytes('exec'), new TypedKeys(random)]
      const parts = [
        exec(home, sandbox.id, echoed, inputOf('exec', random, over.signal), started),
        shell(home, sandbox.id, typed, over.signal, started),
      ]
      const copying = copy(home, sandbox.id)
      const killer = new SupervisorKiller(home.home)
      const killing = (async () => {
        for (let n = 0; n < KILLS; n++) {
          const [bytes, keys] = [echoed.at, typed.seen]
          // Each kill waits until both commands have made progress again.
          while ((echoed.at === bytes || typed.seen === keys) && !over.signal.aborted) await sleep(10)
          await killer.kill(random() * 500)
        }
      })()
      for (const part of parts) part.catch(() => {})
      await withEvidence(home, sandbox.id, async () => {
        try {
          await Promise.race([Promise.all([killing, copying]), ...parts])
          await Promise.all([killing, copying])
          over.abort()
          await Promise.all(parts)
        } catch (error) {
          over.abort()
          for (const one of started) one.kill('SIGKILL')
          throw error
        }
      })
      expect(killer.killed).toHaveLength(KILLS)
      await killer.waitUntilOneLeft()
      expect((await sandbox.exec(['sh', '-c', 'cut -d" " -f1 starts | sort'])).stdout).toBe(
        'exec\nterminal\n',
      )
      await sandbox.delete()
      await requireWholeLog(home)
    },
  )
})

function makeFile(home: SandboxHome, name: string): void {
  const stream = keystream('file')
  const file = openSync(home.path(name), 'wx', 0o644)
  for (let left = BYTES; left > 0; left -= 1 << 20) writeSync(file, stream.update(Buffer.alloc(1 << 20)))
  chownSync(home.path(name), home.uid, home.uid)
}

async function exec(
  home: SandboxHome,
  id: string,
  stdout: ExpectedBytes,
  stdin: ReturnType<typeof inputOf>,
  started: Started,
): Promise<void> {
  const { node, main } = home.program
  const args = [main, 'sandbox', 'exec', id, '--', NODE_INSIDE, '-e', ECHO_PROGRAM]
  const child = spawn(node, args, { env: environment(home), stdio: 'pipe', ...home.user })
  started.push(child)
  const stderr = new CountedLines()
  const failed = Promise.withResolvers<never>()
  const rejectOnError = (take: (chunk: Buffer) => void) => (chunk: Buffer) => {
    try {
      take(chunk)
    } catch (error) {
      failed.reject(error)
    }
  }
  child.stdout.on(
    'data',
    rejectOnError((chunk) => stdout.take(chunk)),
  )
  child.stderr.on(
    'data',
    rejectOnError((chunk) => stderr.take(chunk)),
  )
  child.stdin.on('error', () => {})
  stdin.pipe(child.stdin)
  const [code] = await Promise.race([once(child, 'close'), failed.promise])
  expect({ code, back: stdout.at, arrived: stderr.end?.bytes }).toEqual({
    code: 0,
    back: stdin.bytes,
    arrived: stdin.bytes,
  })
}

async function shell(
  home: SandboxHome,
  id: string,
  typed: TypedKeys,
  over: AbortSignal,
  started: Started,
): Promise<void> {
  const { node, main } = home.program
  const args = [main, 'sandbox', 'shell', id, '--', NODE_INSIDE, '-e', KEYS_PROGRAM]
  const terminal = pty.spawn(node, args, {
    cols: 80,
    rows: 24,
    cwd: home.folder,
    encoding: null,
    env: { ...environment(home), TERM: 'xterm' },
    ...home.user,
  })
  started.push(terminal)
  const ended = Promise.withResolvers<number>()
  terminal.onData((chunk) => {
    try {
      typed.take(Buffer.from(chunk))
    } catch (error) {
      ended.reject(error)
    }
  })
  terminal.onExit(({ exitCode }) => ended.resolve(exitCode))
  const typing = (async () => {
    for await (const key of typed.keys(over)) terminal.write(key.toString())
  })()
  expect(await ended.promise).toBe(0)
  await typing
  // Output that the terminal still holds arrives after its program has exited.
  const endsMs = performance.now() + 10_000
  while (typed.pid === undefined && performance.now() < endsMs) await sleep(20)
  typed.requireAll()
}

/** Copies in and then out, twice, so that kills interrupt some of the copies. */
async function copy(home: SandboxHome, id: string): Promise<void> {
  for (const round of [1, 2]) {
    await home.json(['sandbox', 'cp', home.path('file'), `${id}:file-${round}`])
    await home.json(['sandbox', 'cp', `${id}:file-${round}`, home.path(`back-${round}`)])
    const hash = createHash('sha256')
    for await (const chunk of createReadStream(home.path(`back-${round}`))) hash.update(chunk)
    expect(hash.digest('hex')).toBe(sha256Of('file', BYTES))
  }
}

function environment(home: SandboxHome): Record<string, string> {
  return { PATH: process.env.PATH!, HOME: home.folder, CRAIK_HOME: home.home }
}
