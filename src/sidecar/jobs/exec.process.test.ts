import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FRAME } from '../../lib/frames.ts'
import { collectAnswer, framesOf, sh, TestHost, until } from '../sidecar.fixture.ts'

let host: TestHost
beforeAll(async () => {
  host = await TestHost.start({ CRAIK_SECRETIVE: '1', CHOSEN: 'by the sandbox' })
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
})

describe('exec', () => {
  it('separates standard output from standard error and reports the real exit code', async () => {
    const { stdout, stderr, result } = await host.run(sh('echo out; echo err >&2; exit 3'))
    expect({ stdout, stderr }).toEqual({ stdout: 'out\n', stderr: 'err\n' })
    expect(result).toMatchObject({
      outcome: 'exited',
      exitCode: 3,
      signal: null,
      stdoutBytes: 4,
      stderrBytes: 4,
    })
  })

  it.each(['GITHUB_TOKEN', 'GH_ENTERPRISE_TOKEN'])('refuses a job that sets %s', async (name) => {
    const spec = JSON.stringify(sh('true', { env: { [name]: 'made-up-value' } }))
    const { status, body } = await host.ask('PUT', `/jobs/with-${name}`, Buffer.from(spec))
    expect(status).toBe(400)
    expect(String(body)).toContain('must not set any of GITHUB_TOKEN, GH_ENTERPRISE_TOKEN')
    expect(String(body)).not.toContain('made-up-value')
  })

  it('reports the signal that ended a program', async () => {
    const { result } = await host.run(sh('kill -SEGV $$'))
    expect(result).toMatchObject({ outcome: 'signalled', exitCode: null, signal: 'SIGSEGV' })
  })

  it('gives a program outputs and an input that it can reopen by name', async () => {
    const id = await host.start(
      sh('echo a > /dev/stdout; echo b > /dev/stderr; cat /dev/stdin', { stdin: true }),
    )
    await host.ask('POST', `/jobs/${id}/input?offset=0&end=1`, Buffer.from('c\n'))
    const { stdout, stderr } = await host.output(id)
    expect({ stdout, stderr }).toEqual({ stdout: 'a\nc\n', stderr: 'b\n' })
  })

  it('gives an empty input when none is requested', async () => {
    expect((await host.run({ kind: 'exec', argv: ['cat'] })).result).toMatchObject({
      outcome: 'exited',
      exitCode: 0,
    })
    const id = await host.start(sh('sleep 10'))
    expect((await host.ask('POST', `/jobs/${id}/input?offset=0`, Buffer.from('x'))).status).toBe(409)
    await host.ask('DELETE', `/jobs/${id}`)
  })

  it('runs in the workspace, or in a folder relative to it, with the variables of the sandbox and the caller', async () => {
    expect((await host.run(sh('pwd'))).stdout).toBe(`${host.workspace}\n`)
    expect((await host.run(sh('pwd', { cwd: '..' }))).stdout).toBe(`${host.folder}\n`)
    const env = (await host.run(sh('env', { env: { ADDED: 'yes', LANG: 'C' } }))).stdout
    expect(env).toContain('CHOSEN=by the sandbox\n')
    expect(env).toContain('ADDED=yes\n')
    expect(env).toContain('LANG=C\n')
    expect(env).toMatch(/HTTPS_PROXY=http:\/\/127\.0\.0\.1:\d+\n/)
    expect(env).not.toContain('CRAIK_')
  })

  it.each([
    ['a program that is missing', { argv: ['/no/such/program'] }, 'ENOENT'],
    ['a file that may not be run', { argv: ['/etc/passwd'] }, 'EACCES'],
    ['a folder that is missing', { argv: ['true'], cwd: '/no/such/folder' }, 'ENOTDIR'],
  ])('reports that %s was not started', async (_, spec, error) => {
    const { result } = await host.run({ kind: 'exec', ...spec })
    expect(result).toMatchObject({ outcome: 'not_started', exitCode: null, error })
  })

  it('ends the whole group at the timeout, with SIGTERM first', async () => {
    const { stdout, result } = await host.run(
      sh('trap "echo going; exit 9" TERM; sleep 100 & echo $!; wait', { timeoutMs: 300 }),
    )
    expect(result).toMatchObject({ outcome: 'timeout', exitCode: 9 })
    expect(stdout).toMatch(/^\d+\ngoing\n$/)
    await until(() => !isRunning(Number(stdout.split('\n')[0])))
  })

  it('kills a program that ignores SIGTERM', async () => {
    const { result } = await host.run(sh('trap "" TERM; while :; do sleep 0.1; done', { timeoutMs: 100 }))
    expect(result).toMatchObject({ outcome: 'timeout', signal: 'SIGKILL' })
  })

  it('cuts the output at its limit and ends the program', async () => {
    const { stdout, result } = await host.run(sh('yes', { maxOutputBytes: 100_001 }))
    expect(result).toMatchObject({ outcome: 'output_limit', stdoutBytes: 100_001 })
    expect(stdout).toHaveLength(100_001)
  })

  it('ends processes in sessions of their own, as long as they descend from the program', async () => {
    const id = await host.start(
      sh(
        "setsid sh -c 'echo $$ > child; sleep 100' & (setsid sleep 60 & echo $! > orphan); echo > parted; wait",
      ),
    )
    const pidIn = (name: string) => Number(contentOf(join(host.workspace, name)) || 0)
    await until(() => pidIn('child') > 0 && contentOf(join(host.workspace, 'parted')) !== undefined)
    // Its pid is known before it has a session of its own.
    await until(() => sessionOf(pidIn('orphan')) === pidIn('orphan'))
    const [child, orphan] = [pidIn('child'), pidIn('orphan')]
    expect([isRunning(child), isRunning(orphan)]).toEqual([true, true])
    await host.ask('DELETE', `/jobs/${id}`)
    await until(() => !isRunning(child))
    // This process is a daemon: none of the processes that were signalled is its parent.
    expect(isRunning(orphan)).toBe(true)
    process.kill(orphan, 'SIGKILL')
  })

  it('accepts an output of exactly its limit', async () => {
    expect((await host.run(sh('printf 12345', { maxOutputBytes: 5 }))).result).toMatchObject({
      outcome: 'exited',
    })
  })

  it('sends signals to the whole group', async () => {
    const id = await host.start(
      sh('trap "echo got it; exit 0" USR1; echo ready; while :; do sleep 0.05; done'),
    )
    await until(async () => (await status(id)).position > 0)
    expect((await host.ask('POST', `/jobs/${id}/signal`, { signal: 'SIGUSR1' })).status).toBe(200)
    expect((await host.output(id)).stdout).toBe('ready\ngot it\n')
    expect((await host.ask('POST', `/jobs/${id}/signal`, { signal: 'SIGUSR1' })).status).toBe(409)
  })

  it('refuses a signal that does not exist', async () => {
    const id = await host.start(sh('sleep 10'))
    expect((await host.ask('POST', `/jobs/${id}/signal`, { signal: 'SIGNONE' })).status).toBe(400)
    await host.ask('DELETE', `/jobs/${id}`)
  })

  it('ends when the program has exited, although a process that it left behind holds its output open', async () => {
    const { stdout, result } = await host.run(sh('(sleep 1; echo late; echo alive > survived) & echo done'))
    expect(result).toMatchObject({ outcome: 'exited', exitCode: 0 })
    expect(stdout).toBe('done\n')
    // A closed pipe does not kill that process either.
    await until(() => contentOf(join(host.workspace, 'survived')) === 'alive\n')
  })

  it('makes the kernel kill its programs first when memory runs out', async () => {
    const { stdout } = await host.run(
      sh('sleep 0.3; cat /proc/self/oom_score_adj; cat /proc/$$/oom_score_adj'),
    )
    expect(stdout).toBe('1000\n1000\n')
  })

  it('runs a repeated request once and gives it the same output', async () => {
    const spec = sh('echo ran >> times; sleep 0.2; cat times')
    const id = host.newJobId()
    const runs = await Promise.all(Array.from({ length: 5 }, () => host.run(spec, id)))
    expect(runs.map((run) => run.stdout)).toEqual(Array.from({ length: 5 }, () => 'ran\n'))
    expect((await host.run(spec, id)).stdout).toBe('ran\n')
    expect((await host.ask('PUT', `/jobs/${id}`, sh('echo other'))).status).toBe(409)
  })

  it('runs a hundred jobs at once', async () => {
    const runs = await Promise.all(
      Array.from({ length: 100 }, (_, index) =>
        host.run(sh(`echo ${index}; echo ${index} >&2; exit ${index}`)),
      ),
    )
    expect(runs.map((run) => run.result.exitCode)).toEqual(Array.from({ length: 100 }, (_, index) => index))
    expect(runs.map((run) => run.stdout + run.stderr)).toEqual(
      Array.from({ length: 100 }, (_, index) => `${index}\n${index}\n`),
    )
  })

  it('cancels and forgets a deleted job, and its readers get the outcome', async () => {
    const id = host.newJobId()
    const following = host.run(sh('sleep 100'), id)
    await until(async () => (await host.ask('GET', `/jobs/${id}`)).status === 200)
    expect((await host.ask('DELETE', `/jobs/${id}`)).status).toBe(200)
    expect((await following).result.outcome).toBe('cancelled')
    expect((await host.ask('GET', `/jobs/${id}`)).status).toBe(404)
  })
})

describe('input', () => {
  it('ignores bytes that arrived before, and refuses a gap', async () => {
    const id = await host.start({ kind: 'exec', argv: ['cat'], stdin: true })
    const post = (offset: number, text: string, end = 0) =>
      host.json('POST', `/jobs/${id}/input?offset=${offset}&end=${end}`, Buffer.from(text))
    expect((await post(0, 'abc')).value).toEqual({ offset: 3 })
    expect((await post(1, 'bcde')).value).toEqual({ offset: 5 })
    expect((await post(0, 'abc')).value).toEqual({ offset: 5 })
    expect((await post(6, 'g')).status).toBe(409)
    expect((await post(5, 'f', 1)).value).toEqual({ offset: 6 })
    const { stdout, frames } = await host.output(id)
    expect(stdout).toBe('abcdef')
    expect(frames.find((frame) => frame.type === FRAME.ack)?.payload.toString()).toBe('{"offset":6}')
  })

  it('does not treat a body that broke off as the end of the input', async () => {
    const id = await host.start({ kind: 'exec', argv: ['cat'], stdin: true })
    const broken = host.request('POST', `/jobs/${id}/input?offset=0&end=1`)
    broken.write('half')
    await until(async () => (await status(id)).inputOffset === 4)
    host.session.destroy()
    host.connect()
    expect(await status(id)).toMatchObject({ inputOffset: 4, inputEnded: false, state: 'running' })
    const cancelled = host.request('POST', `/jobs/${id}/input?offset=4&end=1`)
    cancelled.write(' and')
    await until(async () => (await status(id)).inputOffset === 8)
    // The host cancels a request like this. Node's `close()` would end the body before it cancels the stream.
    cancelled.destroy()
    await host.ask('POST', `/jobs/${id}/input?offset=8&end=1`, Buffer.from(' whole'))
    expect((await host.output(id)).stdout).toBe('half and whole')
  })

  it('holds back the sender while the program does not read', async () => {
    const id = await host.start(sh('while [ ! -e go ]; do sleep 0.05; done; wc -c', { stdin: true }))
    const bytes = 8 * 1024 * 1024
    const posting = host.request('POST', `/jobs/${id}/input?offset=0&end=1`)
    const answer = collectAnswer(posting)
    posting.end(Buffer.alloc(bytes))
    await until(async () => (await status(id)).inputOffset > 0)
    const held = (await status(id)).inputOffset
    expect(held).toBeLessThan(2 * 1024 * 1024)
    writeFileSync(join(host.workspace, 'go'), '')
    expect(JSON.parse((await answer).body.toString())).toEqual({ offset: bytes })
    expect((await host.output(id)).stdout.trim()).toBe(String(bytes))
  })

  it('drops input that a program does not read', async () => {
    const id = await host.start(sh('exec <&-; sleep 0.3; echo fine', { stdin: true }))
    const answer = await host.ask('POST', `/jobs/${id}/input?offset=0&end=1`, Buffer.alloc(3 * 1024 * 1024))
    expect(answer.status).toBe(200)
    expect((await host.output(id)).stdout).toBe('fine\n')
  })

  it('reports to a reader how much input has arrived', async () => {
    const id = await host.start(sh('cat >/dev/null', { stdin: true }))
    const reading = host.request('GET', `/jobs/${id}/output`)
    reading.end()
    const answer = collectAnswer(reading)
    await host.ask('POST', `/jobs/${id}/input?offset=0`, Buffer.from('12345'))
    await host.ask('POST', `/jobs/${id}/input?offset=5&end=1`, Buffer.from('678'))
    const acks = framesOf((await answer).body).filter((frame) => frame.type === FRAME.ack)
    expect(acks.at(-1)?.payload.toString()).toBe('{"offset":8}')
  })
})

async function status(
  id: string,
): Promise<Record<string, never> & { position: number; inputOffset: number }> {
  return (await host.json('GET', `/jobs/${id}`)).value
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function sessionOf(pid: number): number {
  return Number(/\) \S (?:\d+ ){2}(\d+)/.exec(contentOf(`/proc/${pid}/stat`) ?? '')?.[1])
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}
