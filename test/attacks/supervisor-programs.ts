/**
 * strace records every program that a supervisor executes on the host while sandboxes are created and deleted. The
 * table must contain them all.
 */
import { spawn } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { expect, it, vi } from 'vitest'
import type { ProgramName } from '../../src/lib/host-programs.ts'
import { checkTrace, STRACE, straceArguments, type TraceResult } from '../program-trace.ts'
import { type HomeInstance, SandboxHome } from '../sandbox-home.ts'

const START_MS = 60_000

export function traceLifecycle(instance: HomeInstance, expected: readonly ProgramName[]): void {
  it('are all in the table', async () => {
    const gh = 'tools/gh-2/gh'
    const { known, foreign, users, beyond } = await traceSupervisor(instance, async (home) => {
      const workspace = home.workspace('project', { 'readme.md': '# project\n' })
      const inPlace = await home.create(['--in-place', '--workspace', workspace, '--name', 'first'])
      await inPlace.exec(['sh', '-c', 'id; ls / > list; env'])
      await home.json(['sandbox', 'logins', inPlace.id])
      const copied = await home.create(['--volume', 'cache:.cache', '--name', 'second'])
      await copied.exec(['sh', '-c', 'mkdir -p a/b && chmod 0 a'])
      await home.json(['volume', 'list', '--format', 'json'])
      for (const args of [
        ['sandbox', 'snapshot', 'second', '--name', 'kept'],
        ['sandbox', 'stop', 'second'],
        ['sandbox', 'resume', 'second'],
      ])
        await home.json([...args, '--format', 'json'])
      await home.create(['--from', 'kept'])
      if (home.kind === 'process') await home.create(['--isolation', 'none'])
    })
    expect(foreign).toEqual([])
    expect(users.map((path) => path.endsWith(gh))).toEqual([true])
    for (const name of ['node', 'gh', ...expected] as const) expect(known, name).toHaveProperty([name])
    if (instance.backend === 'process') expect(beyond).toBeGreaterThan(0)
  })

  async function traceSupervisor(
    of: HomeInstance,
    work: (home: SandboxHome) => Promise<void>,
  ): Promise<TraceResult> {
    let output = ''
    {
      await using home = await SandboxHome.open(of)
      const put = (path: string, content: string) => {
        mkdirSync(dirname(home.path(path)), { recursive: true })
        writeFileSync(home.path(path), content, { mode: 0o755 })
        chownSync(home.path(path), home.uid, home.uid)
      }
      put('tools/gh-2/gh', `#!/bin/sh\n/usr/bin/id -u >/dev/null\necho gho_${'a'.repeat(36)}\n`)
      put('.config/gh/hosts.yml', 'github.com:\n  user: octocat\n')
      const later = new Date(Date.now() + 3_600_000)
      utimesSync(home.path('.config/gh/hosts.yml'), later, later)
      mkdirSync(home.path('trace'))
      chmodSync(home.path('trace'), 0o777)
      const file = home.path('trace/programs')
      const { node, main } = home.program
      const args = [...straceArguments(file), node, main, 'supervisor', 'run']
      const env = { ...home.environment, PATH: `${dirname(home.path('tools/gh-2/gh'))}:${process.env.PATH}` }
      const messages = home.path('messages')
      const sink = openSync(messages, 'w')
      const child = spawn(STRACE, args, {
        env,
        cwd: home.folder,
        stdio: ['ignore', sink, sink],
        detached: true,
        ...home.user,
      })
      closeSync(sink)
      child.unref()
      const status = async () =>
        await home.json<{ ready?: boolean; pid?: number }>(['supervisor', 'status', '--format', 'json'])
      const isReady = async () => {
        expect(child.exitCode ?? child.signalCode, readFileSync(messages, 'utf8')).toBeNull()
        return (await status()).ready
      }
      await vi.waitUntil(isReady, { timeout: START_MS, interval: 100 }).catch((cause: Error) => {
        throw new Error(`the traced supervisor is not ready: ${readFileSync(messages, 'utf8')}`, { cause })
      })
      const { pid } = await status()
      // The supervisor is the traced process, and not another one that a command started.
      expect(pid).toBe(child.pid)
      await work(home)
      output = readFileSync(file, 'utf8')
    }
    return checkTrace(output)
  }
}
