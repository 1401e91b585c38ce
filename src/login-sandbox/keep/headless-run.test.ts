/** Tests the recorded files of a headless run. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { HeadlessRun, type HeadlessRunOptions } from './headless-run.ts'

const AT_MS = Date.UTC(2026, 10, 15, 9, 12, 44, 7)
const KEY = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
let folder: string
let inbox: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-inbox-'))
  inbox = join(folder, 'inbox')
})
afterEach(() => rmSync(folder, { recursive: true }))

const begin = (options: Partial<HeadlessRunOptions> = {}) =>
  HeadlessRun.begin({
    inbox,
    login: 'octo',
    sandbox: 'octo-sandbox',
    argv: ['npm', 'test'],
    startedAtMs: AT_MS,
    ...options,
  })
const text = (run: HeadlessRun, name: string) => readFileSync(join(run.path, name), 'utf8')

it('records the command, both outputs, the exit code and the times, readable only by the owner', async () => {
  const run = await begin({ argv: ['sh', '-c', 'echo "a b"'] })
  await run.stdout(Buffer.from('one\ntwo'))
  await run.stderr(Buffer.from('grüße\n').subarray(0, 3))
  await run.stderr(Buffer.from('grüße\n').subarray(3))
  await run.finish(3, AT_MS + 1500)
  expect(run.path).toBe(join(inbox, 'headless-runs', run.id))
  expect(readdirSync(run.path).sort()).toEqual([
    'command.txt',
    'exit_code',
    'meta.env',
    'stderr.log',
    'stdout.log',
  ])
  expect(text(run, 'command.txt')).toBe(`sh -c 'echo "a b"'\n`)
  expect(text(run, 'stdout.log')).toBe('one\ntwo')
  expect(text(run, 'stderr.log')).toBe('grüße\n')
  expect(text(run, 'exit_code')).toBe('3\n')
  expect(text(run, 'meta.env').split('\n')).toEqual([
    `RUN_ID=${run.id}`,
    'LOGIN=octo',
    'SANDBOX=octo-sandbox',
    'STARTED=2026-11-15T09:12:44.007Z',
    'ENDED=2026-11-15T09:12:45.507Z',
    'DURATION_MS=1500',
    '',
  ])
  expect(statSync(run.path).mode & 0o777).toBe(0o700)
  for (const name of readdirSync(run.path)) expect(statSync(join(run.path, name)).mode & 0o777).toBe(0o600)
})

it('has no exit code after it was killed, but the output until then', async () => {
  const run = await begin()
  await run.stdout(Buffer.from('so far\n'))
  await run.close()
  await run.close()
  expect(readdirSync(run.path).sort()).toEqual(['command.txt', 'meta.env', 'stderr.log', 'stdout.log'])
  expect(text(run, 'stdout.log')).toBe('so far\n')
  expect(text(run, 'meta.env')).not.toContain('ENDED')
})

it('contains no secret of the command or of its output, in whatever pieces the output arrives', async () => {
  const run = await begin({ argv: ['deploy', '--token', 'not-so-secret-word', `--env=X=${KEY}`] })
  for (const byte of Buffer.from(`the key is ${KEY} indeed\n`)) await run.stdout(Uint8Array.of(byte))
  await run.finish(0, AT_MS)
  for (const name of readdirSync(run.path)) {
    expect(text(run, name)).not.toContain(KEY)
    expect(text(run, name)).not.toContain('not-so-secret-word')
  }
  expect(text(run, 'stdout.log')).toMatch(/^the key is .* indeed\n$/)
})

it('ends a full log with a notice', async () => {
  const run = await begin({ maxLogBytes: 1000 })
  for (let i = 0; i < 50; i++) await run.stdout(Buffer.from(`${'x'.repeat(99)}\n`))
  await run.stderr(Buffer.from('short\n'))
  await run.finish(0, AT_MS)
  expect(text(run, 'stdout.log')).toBe(
    `${`${'x'.repeat(99)}\n`.repeat(10)}\n… truncated: a log has at most 1,000 bytes\n`,
  )
  expect(text(run, 'meta.env')).toContain('STDOUT_CUT=1\n')
  expect(text(run, 'meta.env')).not.toContain('STDERR_CUT')
})

it('has a unique name that sorts by its start time', async () => {
  const ids: string[] = []
  for (const afterMs of [0, 0, 1, 999, 60_000]) {
    const run = await begin({ startedAtMs: AT_MS + afterMs })
    await run.finish(0, AT_MS)
    ids.push(run.id)
  }
  expect(new Set(ids).size).toBe(5)
  expect([...ids.slice(1)].sort()).toEqual(ids.slice(1))
})

it('is never written through a link', async () => {
  mkdirSync(inbox)
  mkdirSync(join(folder, 'outside'))
  symlinkSync(join(folder, 'outside'), join(inbox, 'headless-runs'))
  await expect(begin()).rejects.toMatchObject({ code: 'export_failed' })
  expect(readdirSync(join(folder, 'outside'))).toEqual([])
})
