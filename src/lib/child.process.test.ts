import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { collect } from './child.fixture.ts'
import type { RunOptions } from './child.ts'

let folder: string
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-child-')))
})

/** Processes that outlive their program by design, ended after each test. */
const leftBehind: number[] = []
afterEach(() => {
  for (const pid of leftBehind.splice(0)) if (exists(pid)) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true })
})

const run = (argv: readonly string[], options: Partial<RunOptions> = {}) => collect(folder, argv, options)
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

/** A zombie exists but does not run. */
function isRunning(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return stdout.trim() !== '' && !stdout.startsWith('Z')
}

describe('runChild', () => {
  it('gives the exit code and both outputs apart', async () => {
    expect(await sh('echo out; echo err >&2; exit 7')).toMatchObject({
      end: 'exited',
      exitCode: 7,
      stdout: 'out\n',
      stderr: 'err\n',
      durationMs: expect.any(Number),
    })
  })

  it('hands arguments over as they are, with no shell between', async () => {
    const hostile = ['$HOME', '`id`', '; rm -rf /', '*', 'a b', '', "'", 'é\n']
    const { stdout } = await run(['printf', '%s\\0', ...hostile])
    expect(stdout.split('\0').slice(0, -1)).toEqual(hostile)
  })

  it('runs in the folder and with the environment that it is given, and no other', async () => {
    const env = { PATH: process.env.PATH!, ONLY: 'this' }
    const { stdout } = await run(['env'], { env })
    expect(stdout.trim().split('\n').sort()).toEqual(['ONLY=this', `PATH=${env.PATH}`])
    expect((await run(['pwd', '-P'])).stdout.trim()).toBe(folder)
  })

  it('names the signal that a program died of', async () => {
    expect(await sh('kill -SEGV $$')).toMatchObject({ end: 'signalled', signal: 'SIGSEGV' })
  })

  it('ends a program that runs too long, and delivers what it wrote until then', async () => {
    expect(await sh('echo hi; exec sleep 1000', { timeoutMs: 2000 })).toMatchObject({
      end: 'timeout',
      stdout: 'hi\n',
    })
  })

  it('gives a program time to tidy up, and delivers its last words', async () => {
    const abort = abortOn('ready')
    const script = 'trap "echo bye; exit 0" TERM; echo ready; while :; do sleep 0.02; done'
    expect((await sh(script, { ...abort, graceMs: 20_000 })).end).toBe('cancelled')
    expect(abort.output()).toBe('ready\nbye\n')
  })

  it('ends a program and its children that ignore SIGTERM', async () => {
    const result = await sh('trap "" TERM; sleep 1000 & echo $! $$; sleep 1000; sleep 1000', {
      timeoutMs: 2000,
      graceMs: 100,
    })
    expect(result.end).toBe('timeout')
    const pids = result.stdout.trim().split(' ').map(Number)
    expect(pids).toHaveLength(2)
    for (const pid of pids) await expect.poll(() => isRunning(pid)).toBe(false)
  })

  it('ends children that ignore SIGTERM although the program itself obeys it', async () => {
    const stubborn = `sh -c 'trap "" TERM; echo $$ ready; while :; do sleep 0.05; done'`
    const abort = abortOn('ready')
    expect(await sh(`${stubborn} & wait`, { ...abort, graceMs: 100 })).toMatchObject({ end: 'cancelled' })
    await expect.poll(() => isRunning(Number.parseInt(abort.output(), 10))).toBe(false)
  })

  it('gives children their grace although the program itself has gone', async () => {
    const careful = `trap "sleep 0.2; echo tidy > ${folder}/done; exit" TERM; echo ready; while :; do sleep 0.02; done`
    const abort = abortOn('ready')
    const result = await run(['sh', '-c', 'sh -c "$0" & wait', careful], { ...abort, graceMs: 20_000 })
    expect(result.end).toBe('cancelled')
    expect(readFileSync(join(folder, 'done'), 'utf8')).toBe('tidy\n')
  })

  it('does not wait for a grandchild that holds the pipes, and leaves it alone', async () => {
    const result = await sh('sleep 1000 & echo $!; exit 3', { graceMs: 50 })
    expect(result).toMatchObject({ end: 'exited', exitCode: 3 })
    leftBehind.push(Number(result.stdout))
    expect(isRunning(leftBehind[0]!)).toBe(true)
  })

  it('does not wait for a process that left the group and holds the pipes', async () => {
    const abort = abortOn('\n')
    const script = `require('node:child_process').spawn('sleep', ['1000'], { detached: true, stdio: 'inherit' })
      .once('spawn', function () { console.log(this.pid) })`
    expect((await run([process.execPath, '-e', script], { ...abort, graceMs: 50 })).end).toBe('cancelled')
    leftBehind.push(Number(abort.output()))
    expect(isRunning(leftBehind[0]!)).toBe(true)
  })

  it('does not read for ever from a grandchild that never stops writing to a slow sink', async () => {
    const result = await sh('yes & echo $! >&2; exit 0', { graceMs: 20_000, onStdout: () => sleep(1) })
    expect(result).toMatchObject({ end: 'exited', exitCode: 0 })
    const pid = Number(result.stderr)
    await expect.poll(() => isRunning(pid)).toBe(false)
  })

  it('stops mid-way when asked to', async () => {
    const abort = abortOn('ready')
    const result = await sh('echo $$ ready; sleep 1000', abort)
    expect(result.end).toBe('cancelled')
    expect(isRunning(Number.parseInt(abort.output(), 10))).toBe(false)
  })

  it('passes a Ctrl-C on as the signal that the program expects', async () => {
    const watch = abortOn('ready')
    const script = 'trap "echo interrupted; exit 3" INT; echo ready; while :; do sleep 0.05; done'
    await sh(script, { ...watch, cancelSignal: 'SIGINT', graceMs: 10_000 })
    expect(watch.output()).toContain('interrupted')
  })

  it('ends the whole group at once, and not after the grace, when told to kill', async () => {
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

  it('is ended by a kill that nobody announced, and starts nothing after one', async () => {
    const kill = new AbortController()
    const options = { killSignal: kill.signal, graceMs: 15_000, onStdout: () => kill.abort() }
    const result = await sh('trap "" INT TERM; echo ready; while :; do sleep 0.05; done', options)
    expect(result.end).toBe('cancelled')
    expect(result.durationMs).toBeLessThan(10_000)
    expect((await sh(`touch ${folder}/ran`, options)).end).toBe('cancelled')
    expect(() => readFileSync(join(folder, 'ran'))).toThrow('ENOENT')
  })

  it('starts nothing when asked to stop beforehand', async () => {
    const result = await sh(`touch ${folder}/ran`, { signal: AbortSignal.abort() })
    expect(result.end).toBe('cancelled')
    expect(() => readFileSync(join(folder, 'ran'))).toThrow('ENOENT')
  })

  it('stops when asked to while the program is starting', async () => {
    const controller = new AbortController()
    const running = sh('sleep 1000', { signal: controller.signal })
    controller.abort()
    expect((await running).end).toBe('cancelled')
  })

  it('keeps the exit code when it is asked to stop after the program has ended', async () => {
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

  it('stops at the output limit, having delivered exactly that much', async () => {
    const result = await run(['yes'], { maxOutputBytes: 100_001 })
    expect(result.end).toBe('output_limit')
    expect(result.stdout).toHaveLength(100_001)
  })

  it('counts both outputs towards the limit, and allows exactly the limit', async () => {
    const script = 'printf 12345; printf 67890 >&2'
    expect(await sh(script, { maxOutputBytes: 10 })).toMatchObject({ end: 'exited', exitCode: 0 })
    const over = await sh(script, { maxOutputBytes: 9 })
    expect(over.end).toBe('output_limit')
    expect(over.stdout.length + over.stderr.length).toBe(9)
  })

  it('holds the program up while a slow sink works, and loses nothing', async () => {
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

  it('delivers all that a program wrote before it ended, although the sink takes longer than the grace', async () => {
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

  it('delivers all that a program wrote although this process is busy for longer than the grace', async () => {
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
        // Timers are next after this turn; by then, the wait for the third chunk has outlasted its grace.
        if (isFirst) await nextTurn()
        process.nextTick(() => Atomics.wait(pause, 0, 0, 20))
      },
    })
    expect(result.end).toBe('exited')
    expect(received).toBe(140_000)
  })

  it('ends the program and rejects with the error of a sink that fails', async () => {
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

  it('feeds a buffer to stdin, and nothing when there is none', async () => {
    const input = Buffer.alloc(1_000_000, 'x')
    expect((await run(['cat'], { stdin: input })).stdout).toHaveLength(1_000_000)
    expect(await run(['cat'])).toMatchObject({ end: 'exited', exitCode: 0, stdout: '' })
  })

  it('does not mind a program that leaves its input unread', async () => {
    expect(await run(['true'], { stdin: Buffer.alloc(1_000_000) })).toMatchObject({
      end: 'exited',
      exitCode: 0,
    })
  })

  it('takes a timeout longer than a timer can hold', async () => {
    expect(await sh('sleep 0.1; exit 5', { timeoutMs: 10 * 365 * 86_400_000 })).toMatchObject({ exitCode: 5 })
    expect(await sh('exit 5', { timeoutMs: Number.POSITIVE_INFINITY })).toMatchObject({ exitCode: 5 })
  })
})

describe('runChild, for a sandbox', () => {
  it('hands inputs over as descriptors from 3 on', async () => {
    const inputs = [Buffer.from('first'), Buffer.from('second')]
    expect((await sh('cat <&3; echo; cat <&4', { inputs })).stdout).toBe('first\nsecond')
  })

  it('hears what is said on the descriptor after the inputs, apart from all output', async () => {
    let status = ''
    const onStatus = (chunk: Buffer) => {
      status += chunk
    }
    const inputs = [Buffer.from('first')]
    const { stdout } = await sh('cat <&3; echo heard >&4', { inputs, onStatus, maxOutputBytes: 5 })
    expect([stdout, status]).toEqual(['first', 'heard\n'])
  })

  if (process.getuid?.() === 0)
    it('runs as another user, without the groups of this one', async () => {
      const { stdout } = await sh('id -u; id -G', { user: { uid: 65534, gid: 65534 }, cwd: '/' })
      expect(stdout).toBe('65534\n65534\n')
    })

  it('lets its caller deliver the first signal, and ends the group all the same', async () => {
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
