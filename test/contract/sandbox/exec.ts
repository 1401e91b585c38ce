/** Commands: their input, output and end, and that each one runs once. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JobRequestBody } from '../../../src/operator/api/requests.ts'
import { expectRunsCommands, type GetInstance, newJobId, runWhole, sha256, waitUntil } from './instance.ts'

type ExecBody = Omit<Extract<JobRequestBody, { readonly kind: 'exec' }>, 'kind'>

export function execContract(getInstance: GetInstance): void {
  const run = (argv: readonly string[], options: ExecBody & { readonly input?: Buffer } = {}) => {
    const { input, ...rest } = options
    const spec: JobRequestBody = { kind: 'exec', argv: [...argv], stdin: input !== undefined, ...rest }
    return runWhole(getInstance(), spec, input === undefined ? {} : { stdin: input })
  }

  describe('exec', () => {
    it('passes a program its arguments unchanged', async () => {
      const odd = [
        '',
        ' ',
        'a b',
        'a\nb\n',
        '-n',
        '$HOME',
        '*',
        "'",
        '"',
        '\\',
        '%s',
        'é',
        '日本',
        '😀',
        '\x1b[0m',
      ]
      const argument = fc.oneof(
        fc.constantFrom(...odd),
        fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\0')),
      )
      const property = fc.asyncProperty(fc.array(argument, { minLength: 1, maxLength: 30 }), async (args) => {
        const { result, stdout } = await run(['printf', '%s\\0', ...args])
        expect(result).toMatchObject({ outcome: 'exited', exitCode: 0 })
        expect(stdout.toString().split('\0')).toEqual([...args, ''])
      })
      await fc.assert(property, { numRuns: 15, examples: [[odd]] })
    })

    it('runs in the workspace, or in the given folder', async () => {
      await run(['mkdir', '-p', 'sub folder'])
      const folderOf = async (cwd?: string) =>
        (await run(['pwd'], cwd === undefined ? {} : { cwd })).stdout.toString()
      expect(await folderOf()).toBe('/workspace/home/project\n')
      expect(await folderOf('sub folder')).toBe('/workspace/home/project/sub folder\n')
      expect(await folderOf('/tmp')).toBe('/tmp\n')
      const { result } = await run(['pwd'], { cwd: 'nonesuch' })
      expect(result).toMatchObject({ outcome: 'not_started', exitCode: null, error: expect.any(String) })
    })

    it('has its own environment, plus the given variables', async () => {
      const env = { A: 'b c', EMPTY: '', LINES_OF: 'one\ntwo', SIGN: 'a=b', LANG: 'de_DE.UTF-8' }
      const { stdout } = await run(['env', '-0'], { env })
      const entries = stdout.toString().split('\0').filter(Boolean)
      const all = Object.fromEntries(entries.map((entry) => entry.split(/=(.*)/s).slice(0, 2)))
      expect(all).toMatchObject({ ...env, HOME: '/workspace/home', USER: 'agent' })
      expect(Object.keys(all).filter((name) => name.startsWith('CRAIK'))).toEqual([])
    })

    it.each([0, 1, 10 * 1024 * 1024])(
      'copies %i bytes unchanged from its input to its output',
      async (size) => {
        const input = randomBytes(size)
        const { result, stdout } = await run(['cat'], { input })
        expect(result).toMatchObject({ exitCode: 0, stdinBytes: size, stdoutBytes: size, stderrBytes: 0 })
        expect(sha256(stdout)).toBe(sha256(input))
      },
    )

    it('reads nothing when there is no input', async () => {
      expect((await run(['wc', '-c'])).stdout.toString()).toBe('0\n')
    })

    it('can exit without reading its input', async () => {
      const { result } = await run(['sh', '-c', 'exit 3'], { input: randomBytes(2 * 1024 * 1024) })
      expect(result).toMatchObject({ outcome: 'exited', exitCode: 3 })
    })

    it('separates both output streams', async () => {
      const { stdout, stderr } = await run(['sh', '-c', 'for i in 1 2 3; do echo o$i; echo e$i >&2; done'])
      expect([stdout.toString(), stderr.toString()]).toEqual(['o1\no2\no3\n', 'e1\ne2\ne3\n'])
    })

    it('reports the real exit code', async () => {
      const codes = Array.from({ length: 256 }, (_, code) => code)
      const seen: (number | null)[] = []
      const one = async () => {
        for (let code = codes.shift(); code !== undefined; code = codes.shift())
          seen[code] = (await run(['sh', '-c', `exit ${code}`])).result.exitCode
      }
      await Promise.all(Array.from({ length: 8 }, one))
      expect(seen).toEqual(Array.from({ length: 256 }, (_, code) => code))
    })

    it.each(['HUP', 'INT', 'QUIT', 'KILL', 'USR1', 'TERM', 'SEGV'])(
      'reports the end by SIG%s',
      async (name) => {
        const { result } = await run(['sh', '-c', `ulimit -c 0; kill -${name} $$; sleep 60`])
        expect(result).toMatchObject({ outcome: 'signalled', exitCode: null, signal: `SIG${name}` })
      },
    )

    it('is killed with all its child processes at its timeout', async () => {
      const { result, stdout } = await run(['sh', '-c', 'echo $$; sleep 987 & sleep 987'], {
        timeout_ms: 700,
      })
      expect(result).toMatchObject({ outcome: 'timeout' })
      expect(stdout.toString()).toMatch(/^\d+\n$/)
      const sleeping = async () =>
        (await getInstance().client.sandboxes.processes(getInstance().box.id)).filter(
          ({ name }) => name === 'sleep',
        )
      // The killed processes have ended, but their parent may not have reaped them yet.
      expect((await sleeping()).filter(({ state }) => state !== 'Z')).toEqual([])
      await expect.poll(sleeping, { timeout: 10_000 }).toEqual([])
    })

    it('is killed when its output exceeds the limit', async () => {
      const { result, stdout, stderr } = await run(['sh', '-c', 'yes & yes >&2'], { max_output_bytes: 5000 })
      expect(result).toMatchObject({ outcome: 'output_limit' })
      expect(stdout.length + stderr.length).toBe(5000)
    })

    it.each([
      [['no-such-program'], 'ENOENT'],
      [['/no/such/program'], 'ENOENT'],
      [['/etc/passwd'], 'EACCES'],
      [['true', 'x'.repeat(200_000)], 'E2BIG'],
    ])('reports why a program could not start', async (argv, error) => {
      expect((await run(argv)).result).toMatchObject({ outcome: 'not_started', exitCode: null, error })
    })

    it.each([
      ['10,000 arguments', { argv: ['true', ...Array.from({ length: 10_000 }, String)] }],
      [
        'half a megabyte of arguments',
        { argv: ['true', ...Array.from({ length: 8 }, () => 'x'.repeat(70_000))] },
      ],
      ['a NUL in an argument', { argv: ['echo', 'a\0b'] }],
      ['no program', { argv: [''] }],
      ['an environment name that is none', { argv: ['true'], env: { 'A=B': 'c' } }],
    ])('with %s is refused, and nothing runs', async (_, spec) => {
      const { client, box } = getInstance()
      const jobId = newJobId()
      const refused = runWhole(getInstance(), { kind: 'exec', ...spec }, { jobId })
      await expect(refused).rejects.toMatchObject({ code: expect.stringMatching(/^(usage|too_large)$/) })
      await expect(client.jobs.get(box.id, jobId)).rejects.toMatchObject({ code: 'not_found' })
      await expectRunsCommands(box)
    })
  })

  describe('a job id', () => {
    const counting = (file: string): JobRequestBody => ({
      kind: 'exec',
      argv: ['sh', '-c', `echo ran >> ${file}; sleep 0.3; cat ${file}`],
    })

    it('that is repeated gives the result of the first request, and runs nothing', async () => {
      const jobId = newJobId()
      const first = await runWhole(getInstance(), counting('again'), { jobId })
      const second = await runWhole(getInstance(), counting('again'), { jobId })
      expect(first.stdout.toString()).toBe('ran\n')
      expect(second).toEqual(first)
      expect((await run(['cat', 'again'])).stdout.toString()).toBe('ran\n')
    })

    it('in many requests at once runs one job, and each request gets its whole output', async () => {
      const jobId = newJobId()
      const all = await Promise.all(
        Array.from({ length: 10 }, () => runWhole(getInstance(), counting('at-once'), { jobId })),
      )
      expect(all.map(({ stdout }) => stdout.toString())).toEqual(Array(10).fill('ran\n'))
      expect((await run(['cat', 'at-once'])).stdout.toString()).toBe('ran\n')
    })

    it('of one command is refused for another', async () => {
      const jobId = newJobId()
      await runWhole(getInstance(), { kind: 'exec', argv: ['true'] }, { jobId })
      const other = runWhole(getInstance(), { kind: 'exec', argv: ['touch', 'other'] }, { jobId })
      await expect(other).rejects.toMatchObject({ code: 'conflict' })
      expect((await run(['test', '-e', 'other'])).result.exitCode).toBe(1)
    })

    it('that is cancelled ends the job, and the job is forgotten', async () => {
      const { client, box } = getInstance()
      const jobId = newJobId()
      const running = runWhole(
        getInstance(),
        { kind: 'exec', argv: ['sh', '-c', 'trap "" TERM; sleep 986'] },
        { jobId },
      )
      running.catch(() => {})
      const isRunning = async () =>
        (await client.sandboxes.processes(box.id)).some(({ job, name }) => job === jobId && name === 'sleep')
      await waitUntil(isRunning)
      await client.jobs.cancel(box.id, jobId)
      expect((await running).result.outcome).toBe('cancelled')
      expect(await isRunning()).toBe(false)
    })
  })
}
