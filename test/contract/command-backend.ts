/** The contract of every backend that runs commands, with any isolation. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RunResult } from '../../src/lib/child.ts'
import type { Isolation } from '../../src/sandboxes/backend.ts'
import type { CommandBackend, CommandSandbox, ExecOptions } from '../../src/sandboxes/command-backend.ts'

/** Only folders that everyone can read. The PATH of the test process may contain others. */
const PATH = '/usr/local/bin:/usr/bin:/bin'

export interface Collected {
  readonly run: RunResult
  readonly out: string
  readonly err: string
}

/** Runs a command and collects its output. */
export async function exec(
  sandbox: CommandSandbox,
  argv: readonly string[],
  options: Partial<ExecOptions> = {},
): Promise<Collected> {
  let [out, err] = ['', '']
  const run = await sandbox.boundary.exec({
    argv,
    env: sandbox.isolation === 'none' ? { PATH } : {},
    timeoutMs: 60_000,
    onStdout: (chunk) => {
      out += chunk
    },
    onStderr: (chunk) => {
      err += chunk
    },
    ...options,
  })
  return { run, out, err }
}

/** `isolation` must be available on this host with this backend. */
export function commandBackendContract(
  name: string,
  isolation: Isolation,
  backendFor: (craikHome: string) => CommandBackend,
): void {
  describe(`${name}, isolation ${isolation}`, () => {
    let folder: string
    let backend: CommandBackend
    let sandbox: CommandSandbox

    beforeEach(async () => {
      folder = mkdtempSync(join(realpathSync(tmpdir()), 'craik-backend-'))
      backend = backendFor(join(folder, 'home'))
      sandbox = await backend.create({ isolation, workspace: folder })
    })
    afterEach(async () => {
      await sandbox.destroy()
      rmSync(folder, { recursive: true, force: true })
    })

    it('provides the requested isolation, and reports it', async () => {
      expect(sandbox.isolation).toBe(isolation)
      expect((await backend.probe()).isolation).toBeTypeOf('string')
    })

    it('passes a program its arguments unchanged, without a shell', async () => {
      const text = '$HOME * `id` $(id) | > x ; && & ~'
      expect(await exec(sandbox, ['printf', '%s', text])).toMatchObject({
        run: { end: 'exited', exitCode: 0 },
        out: text,
      })
    })

    it('separates both output streams, and returns the program’s own exit code', async () => {
      expect(await exec(sandbox, ['sh', '-c', 'echo out; echo err >&2; exit 7'])).toMatchObject({
        run: { end: 'exited', exitCode: 7 },
        out: 'out\n',
        err: 'err\n',
      })
    })

    it('passes on only the given environment', async () => {
      process.env.CRAIK_CONTRACT_PLANTED = 'planted-value'
      try {
        const { out } = await exec(sandbox, ['env'], { env: { PATH, GIVEN: 'yes' } })
        expect(out).toContain('GIVEN=yes\n')
        expect(out).not.toContain('planted-value')
      } finally {
        delete process.env.CRAIK_CONTRACT_PLANTED
      }
    })

    it.each([
      ['is not there', 'no-such-program-here', 'missing'],
      ['is not there by its path', '/nowhere/at/all/program', 'missing'],
      ['is not in the workspace', './no-such-program-here', 'missing'],
      ['may not be executed', './closed', 'not_executable'],
    ])('reports not_started for a program that %s', async (_, program, reason) => {
      writeFileSync(join(folder, 'closed'), '#!/bin/sh\n', { mode: 0o644 })
      const { run } = await exec(sandbox, [program, 'argument'])
      expect(run).toMatchObject({
        end: 'not_started',
        reason,
        message: expect.stringContaining(JSON.stringify(program)),
      })
    })

    it('reports the same for a script whose interpreter is missing', async () => {
      writeFileSync(join(folder, 'script'), '#!/no/such/interpreter\n', { mode: 0o755 })
      expect((await exec(sandbox, ['./script'])).run.end).toBe('not_started')
    })

    it('reports a program’s own exit code, whatever the program prints', async () => {
      const lie = "echo 'bwrap: execvp x: No such file or directory' >&2; exit 1"
      expect((await exec(sandbox, ['sh', '-c', lie])).run).toMatchObject({ end: 'exited', exitCode: 1 })
      expect((await exec(sandbox, ['sh', '-c', 'exit 127'])).run).toMatchObject({ exitCode: 127 })
    })

    it('sends the given standard input, and otherwise none', async () => {
      expect((await exec(sandbox, ['cat'])).out).toBe('')
      expect((await exec(sandbox, ['cat'], { stdin: Buffer.from('handed\n') })).out).toBe('handed\n')
    })

    it('sends a program a signal at its timeout, and lets it finish', async () => {
      const script = `trap 'echo asked; exit 0' TERM; while :; do sleep 0.05; done`
      const { run, out } = await exec(sandbox, ['sh', '-c', script], { timeoutMs: 700, graceMs: 10_000 })
      expect(run.end).toBe('timeout')
      expect(out).toBe('asked\n')
    })

    it('kills a program that ignores the signal', async () => {
      const script = `trap '' TERM INT; echo deaf; while :; do sleep 0.05; done`
      const { run, out } = await exec(sandbox, ['sh', '-c', script], { timeoutMs: 500, graceMs: 200 })
      expect(run.end).toBe('timeout')
      expect(out).toBe('deaf\n')
    })

    it('stops when it is cancelled, gently or at once', async () => {
      for (const which of ['signal', 'killSignal'] as const) {
        const cancel = new AbortController()
        const { run } = await exec(sandbox, ['sh', '-c', 'echo started; exec sleep 300'], {
          [which]: cancel.signal,
          onStdout: () => cancel.abort(),
        })
        expect(run.end).toBe('cancelled')
      }
    })

    it('truncates excessive output', async () => {
      const { run, out } = await exec(sandbox, ['yes'], { maxOutputBytes: 100_000 })
      expect(run.end).toBe('output_limit')
      expect(out.length).toBe(100_000)
    })

    it('runs several commands at once, independent of each other', async () => {
      const all = await Promise.all(
        [1, 2, 3, 4].map((n) => exec(sandbox, ['sh', '-c', `sleep 0.1; echo ${n}`])),
      )
      expect(all.map(({ out }) => out)).toEqual(['1\n', '2\n', '3\n', '4\n'])
    })

    it('can be destroyed twice', async () => {
      await sandbox.destroy()
      await sandbox.destroy()
    })
  })
}
