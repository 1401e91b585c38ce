import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { collectOutput } from './child.fixture.ts'
import type { RunOptions } from './child.ts'

let folder: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-child-')))
})

/** Processes that outlive their program on purpose. They are killed after each test. */
const leftBehind: number[] = []
afterEach(() => {
  for (const pid of leftBehind.splice(0)) if (exists(pid)) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true })
})

const run = (argv: readonly string[], options: Partial<RunOptions> = {}) =>
  collectOutput(folder, argv, options)
const sh = (script: string, options: Partial<RunOptions> = {}) => run(['sh', '-c', script], options)

/** Aborts as soon as the program has written the given word to stdout, so that nothing depends on timing. */
function abortOn(word: string): Partial<RunOptions> & { output(): string } {
  const controller = new AbortController()
  let seen = ''
  return {
    signal: controller.signal,
    onStdout: (chunk) => {
      seen += chunk
      if (seen.includes(word)) controller.abort()
    },
    output: () => seen,
  }
}

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Returns false for a zombie, which exists but does not run. */
function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return stdout.trim() !== '' && !stdout.startsWith('Z')
}

describe('runChild', () => {
  it('returns the exit code and both outputs separately', async () => {
    expect(await sh('echo out; echo err >&2; exit 7')).toMatchObject({
      end: 'exited',
      exitCode: 7,
      stdout: 'out\n',
      stderr: 'err\n',
      durationMs: expect.any(Number),
    })
  })

  it('passes arguments unchanged, without a shell', async () => {
    const hostile = ['$HOME', '`id`', '; rm -rf /', '*', 'a b', '', "'", 'é\n']
    const { stdout } = await run(['printf', '%s\\0', ...hostile])
    expect(stdout.split('\0').slice(0, -1)).toEqual(hostile)
  })

  it('runs in the given folder and with exactly the given environment', async () => {
    const env = { PATH: process.env.PATH!, ONLY: 'this' }
    const { stdout } = await run(['env'], { env })
    expect(stdout.trim().split('\n').sort()).toEqual(['ONLY=this', `PATH=${env.PATH}`])
    expect((await run(['pwd', '-P'])).stdout.trim()).toBe(folder)
  })

  it('reports the signal that killed a program', async () => {
    expect(await sh('kill -SEGV $$')).toMatchObject({ end: 'signalled', signal: 'SIGSEGV' })
  })

  it('stops a program that runs too long, and delivers what it wrote until then', async () => {
    expect(await sh('echo hi; exec sleep 1000', { timeoutMs: 2000 })).toMatchObject({
      end: 'timeout',
      stdout: 'hi\n',
    })
  })

  it('gives a program time to clean up, and delivers its last output', async () => {
    const abort = abortOn('ready')
    const script = 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.02; done'
    expect((await sh(script, { ...abort, graceMs: 20_000 })).end).toBe('cancelled')
    expect(abort.output()).toBe('ready\nbye\n')
  })

  it('stops a program and its children that ignore SIGTERM', async () => {
    const result = await sh('trap "" TERM; sleep 1000 & echo $! $$; sleep 1000; sleep 1000', {
      timeoutMs: 2000,
      graceMs: 100,
    })
    expect(result.end).toBe('timeout')
    const pids = result.stdout.trim().split(' ').map(Number)
    expect(pids).toHaveLength(2)
    for (const pid of pids) await expect.poll(() => isRunning(pid)).toBe(false)
  })

  it('stops children that ignore SIGTERM although the program itself obeys it', async () => {
    const stubborn = `sh -c 'trap "" TERM; echo $$ ready; while :; do sleep 0.05; done'`
    const abort = abortOn('ready')
    expect(await sh(`${stubborn} & wait`, { ...abort, graceMs: 100 })).toMatchObject({ end: 'cancelled' })
    await expect.poll(() => isRunning(Number.parseInt(abort.output(), 10))).toBe(false)
  })

  it('gives children their grace period although the program itself has exited', async () => {
    const careful = `trap "sleep 0.2; echo tidy > ${folder}/done; exit" TERM; echo ready; while :; do sleep 0.02; done`
    const abort = abortOn('ready')
    const result = await run(['sh', '-c', 'sh -c "$0" & wait', careful], { ...abort, graceMs: 20_000 })
    expect(result.end).toBe('cancelled')
    expect(readFileSync(join(folder, 'done'), 'utf8')).toBe('tidy\n')
  })

  it('does not wait for a grandchild that keeps the pipes open, and does not stop it', async () => {
    const result = await sh('sleep 1000 & echo $!; exit 3', { graceMs: 50 })
    expect(result).toMatchObject({ end: 'exited', exitCode: 3 })
    leftBehind.push(Number(result.stdout))
    expect(isRunning(leftBehind[0]!)).toBe(true)
  })

  it('does not wait for a process that left the group and keeps the pipes open', async () => {
    const abort = abortOn('\n')
    const script = `require('node:child_process').spawn('sleep', ['1000'], { detached: true, stdio: 'inherit' })
      .once('spawn', function () { console.log(this.pid) })`
    expect((await run([process.execPath, '-e', script], { ...abort, graceMs: 50 })).end).toBe('cancelled')
    leftBehind.push(Number(abort.output()))
    expect(isRunning(leftBehind[0]!)).toBe(true)
  })

  it('does not read forever from a grandchild that never stops writing to a slow sink', async () => {
    const result = await sh('yes & echo $! >&2; exit 0', { graceMs: 20_000, onStdout: () => sleep(1) })
    expect(result).toMatchObject({ end: 'exited', exitCode: 0 })
    const pid = Number(result.stderr)
    await expect.poll(() => isRunning(pid)).toBe(false)
  })

  it('stops a running program when the signal aborts', async () => {
    const abort = abortOn('ready')
    const result = await sh('echo $$ ready; sleep 1000', abort)
    expect(result.end).toBe('cancelled')
    expect(isRunning(Number.parseInt(abort.output(), 10))).toBe(false)
  })

  it('passes Ctrl-C on as the signal that the program expects', async () => {
    const watch = abortOn('ready')
    const script = 'trap "echo interrupted; exit 3" INT; echo ready; while :; do sleep 0.05; done'
    await sh(script, { ...watch, cancelSignal: 'SIGINT', graceMs: 10_000 })
    expect(watch.output()).toContain('interrupted')
  })

  it('kills the whole group at once on the kill signal, without waiting for the end of the grace period', async () => {
    const [signal, kill] = [new AbortController(), new AbortController()]
    let seen = ''
    const startedMs = performance.now()
    const result = await sh('trap "echo asked" INT; sleep 1000 & echo $! $$ ready; while :; do wait; done', {
      signal: signal.signal,
      killSignal: kill.signal,
      cancelSignal: 'SIGINT',
      graceMs: 15_000,
      onStdout: (chunk) => {
        seen += chunk
        if (seen.includes('ready')) signal.abort()
        if (seen.includes('asked')) kill.abort()
      },
    })
    expect(result.end).toBe('cancelled')
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    for (const pid of seen.split(' ').slice(0, 2)) expect(isRunning(Number(pid))).toBe(false)
  })

  it('stops on a kill signal that no abort preceded, and starts nothing after one', async () => {
    const kill = new AbortController()
    const options = { killSignal: kill.signal, graceMs: 15_000, onStdout: () => kill.abort() }
    const result = await sh('trap "" INT TERM; echo ready; while :; do sleep 0.05; done', options)
    expect(result.end).toBe('cancelled')
    expect(result.durationMs).toBeLessThan(10_000)
    expect((await sh(`touch ${folder}/ran`, options)).end).toBe('cancelled')
    expect(() => readFileSync(join(folder, 'ran'))).toThrow('ENOENT')
  })

  it('starts nothing when the signal has aborted before', async () => {
    const result = await sh(`touch ${folder}/ran`, { signal: AbortSignal.abort() })
    expect(result.end).toBe('cancelled')
    expect(() => readFileSync(join(folder, 'ran'))).toThrow('ENOENT')
  })

  it('stops when the signal aborts while the program is starting', async () => {
    const controller = new AbortController()
    const running = sh('sleep 1000', { signal: controller.signal })
    controller.abort()
    expect((await running).end).toBe('cancelled')
  })

  it('keeps the exit code when the signal aborts after the program has ended', async () => {
    const controller = new AbortController()
    const result = await sh('sleep 1000 & echo $! $$; exit 4', {
      signal: controller.signal,
      graceMs: 600_000,
      onStdout: async (chunk) => {
        const [grandchild, program] = chunk.toString().split(' ').map(Number)
        leftBehind.push(grandchild!)
        while (exists(program!)) await sleep(10)
        controller.abort()
      },
    })
    expect(result).toMatchObject({ end: 'exited', exitCode: 4 })
  })

  it('leaves no listener on the signal', async () => {
    const { signal } = new AbortController()
    const counts = { added: 0, removed: 0 }
    const add = signal.addEventListener.bind(signal)
    const remove = signal.removeEventListener.bind(signal)
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      counts.added++
      add(...args)
    }
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      counts.removed++
      remove(...args)
    }
    await run(['true'], { signal })
    expect(counts).toEqual({ added: 1, removed: 1 })
  })

  it('stops at the output limit after it delivered exactly that much', async () => {
    const result = await run(['yes'], { maxOutputBytes: 100_001 })
    expect(result.end).toBe('output_limit')
    expect(result.stdout).toHaveLength(100_001)
  })

  it('counts both outputs toward the limit, and allows exactly the limit', async () => {
    const script = 'printf 12345; printf 67890 >&2'
    expect(await sh(script, { maxOutputBytes: 10 })).toMatchObject({ end: 'exited', exitCode: 0 })
    const over = await sh(script, { maxOutputBytes: 9 })
    expect(over.end).toBe('output_limit')
    expect(over.stdout.length + over.stderr.length).toBe(9)
  })

  it('makes the program wait for a slow sink, and loses nothing', async () => {
    const total = 256 * 1024 * 1024
    let received = 0
    let busy = false
    const before = process.memoryUsage().arrayBuffers
    let peak = 0
    const result = await run(['head', '-c', String(total), '/dev/zero'], {
      onStdout: async (chunk) => {
        expect(busy).toBe(false)
        busy = true
        await nextTurn()
        peak = Math.max(peak, process.memoryUsage().arrayBuffers - before)
        received += chunk.length
        busy = false
      },
    })
    expect(result).toMatchObject({ end: 'exited', exitCode: 0 })
    expect(received).toBe(total)
    expect(peak).toBeLessThan(total / 2)
  })

  it('delivers all that a program wrote before it ended, although the sink takes longer than the grace period', async () => {
    let received = 0
    const result = await run(['head', '-c', '200000', '/dev/zero'], {
      graceMs: 10,
      onStdout: async (chunk) => {
        await sleep(100)
        received += chunk.length
      },
    })
    expect(result.end).toBe('exited')
    expect(received).toBe(200_000)
  })

  it('delivers all that a program wrote although this process is busy for longer than the grace period', async () => {
    const pause = new Int32Array(new SharedArrayBuffer(4))
    let program = 0
    let received = 0
    const result = await sh('echo $$ >&2; exec dd if=/dev/zero bs=140000 count=1 2>&-', {
      graceMs: 1,
      onStderr: (chunk) => {
        program = Number(chunk.toString())
      },
      onStdout: async (chunk) => {
        const isFirst = received === 0
        received += chunk.length
        for (let i = 0; isFirst && i < 100 && (program === 0 || exists(program)); i++) await sleep(10)
        // After this turn, timers run first. By then, the wait for the third chunk has exceeded the grace period.
        if (isFirst) await nextTurn()
        process.nextTick(() => Atomics.wait(pause, 0, 0, 20))
      },
    })
    expect(result.end).toBe('exited')
    expect(received).toBe(140_000)
  })

  it('stops the program and rejects with the error of a sink that fails', async () => {
    let pid = 0
    const running = sh('echo $$; sleep 1000', {
      onStdout: async (chunk) => {
        pid = Number(chunk.toString())
        throw new Error('disk full')
      },
    })
    await expect(running).rejects.toThrow('disk full')
    expect(isRunning(pid)).toBe(false)
  })

  it('writes a buffer to stdin, and nothing without a buffer', async () => {
    const input = Buffer.alloc(1_000_000, 'x')
    expect((await run(['cat'], { stdin: input })).stdout).toHaveLength(1_000_000)
    expect(await run(['cat'])).toMatchObject({ end: 'exited', exitCode: 0, stdout: '' })
  })

  it('accepts a program that leaves its input unread', async () => {
    expect(await run(['true'], { stdin: Buffer.alloc(1_000_000) })).toMatchObject({
      end: 'exited',
      exitCode: 0,
    })
  })

  it('accepts a timeout longer than a timer can be', async () => {
    expect(await sh('sleep 0.1; exit 5', { timeoutMs: 10 * 365 * 86_400_000 })).toMatchObject({ exitCode: 5 })
    expect(await sh('exit 5', { timeoutMs: Number.POSITIVE_INFINITY })).toMatchObject({ exitCode: 5 })
  })
})

describe('runChild, for a sandbox', () => {
  it('passes inputs as descriptors from 3 on', async () => {
    const inputs = [Buffer.from('first'), Buffer.from('second')]
    expect((await sh('cat <&3; echo; cat <&4', { inputs })).stdout).toBe('first\nsecond')
  })

  it('reads the status on the descriptor after the inputs, separately from all output', async () => {
    let status = ''
    const onStatus = (chunk: Buffer) => {
      status += chunk
    }
    const inputs = [Buffer.from('first')]
    const { stdout } = await sh('cat <&3; echo heard >&4', { inputs, onStatus, maxOutputBytes: 5 })
    expect([stdout, status]).toEqual(['first', 'heard\n'])
  })

  if (process.getuid?.() === 0)
    it('runs as another user, without the groups of the current one', async () => {
      const { stdout } = await sh('id -u; id -G', { user: { uid: 65534, gid: 65534 }, cwd: '/' })
      expect(stdout).toBe('65534\n65534\n')
    })

  it('lets its caller send the first signal, and still kills the group', async () => {
    const sent: string[] = []
    const result = await sh('echo ready; exec sleep 300', {
      ...abortOn('ready'),
      graceMs: 50,
      sendFirstSignal: (_, signal) => void sent.push(signal),
    })
    expect(result.end).toBe('cancelled')
    expect(sent).toEqual(['SIGTERM'])
  })
})
