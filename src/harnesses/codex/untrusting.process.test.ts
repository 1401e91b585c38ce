/** Tests the filter between Codex and its adapter. A program that prints its arguments and its input replaces Codex. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { packageFile } from '../../lib/package-files.ts'

let folder: string
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'craik-untrusting-')))
  const teller = `#!/bin/sh\nprintf '%s\\n' "$@" >&2\ncat\nexit 7\n`
  writeFileSync(join(folder, 'codex'), teller, { mode: 0o755 })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Runs the filter and writes the pieces one after the other. */
async function runUntrusting(...pieces: readonly (string | Buffer)[]) {
  const program = fileURLToPath(packageFile('image/harnesses/codex/untrusting.mjs'))
  const child = spawn(process.execPath, [program, 'app-server'], {
    cwd: folder,
    env: { CODEX_ITSELF: join(folder, 'codex'), PATH: process.env.PATH },
  })
  const reply = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  child.stdin.on('error', () => {})
  for (const piece of pieces) if (!child.stdin.write(piece)) await once(child.stdin, 'drain')
  child.stdin.end()
  const [lines, args, [code]] = await reply
  return { lines: lines.split('\n').slice(0, -1), args: args.trim().split('\n'), code }
}

const UNTRUSTED = { trust_level: 'untrusted' }

it('removes the trust in every folder of a session and keeps the other settings', async () => {
  const config = {
    model: 'some',
    projects: { [folder]: { trust_level: 'trusted' }, '/other': { trust_level: 'trusted' } },
  }
  const messages = ['thread/start', 'thread/resume', 'thread/fork'].map((method, id) => ({
    id,
    method,
    params: { cwd: folder, config },
  }))
  const { lines } = await runUntrusting(messages.map((each) => `${JSON.stringify(each)}\n`).join(''))
  const projects = { [folder]: UNTRUSTED, '/other': UNTRUSTED }
  expect(lines.map((line) => JSON.parse(line))).toEqual(
    messages.map((each) => ({ ...each, params: { cwd: folder, config: { model: 'some', projects } } })),
  )
})

it('distrusts the folder in a session without settings, and in requests without a session', async () => {
  const { lines, args, code } = await runUntrusting(
    '{"id":1,"method":"thread/resume","params":{"threadId":"t"}}\n',
  )
  const params = { threadId: 't', config: { projects: { [folder]: UNTRUSTED } } }
  expect(JSON.parse(lines[0]!)).toEqual({ id: 1, method: 'thread/resume', params })
  expect(args).toEqual(['app-server', '-c', `projects={"${folder}"={trust_level="untrusted"}}`])
  expect(code).toBe(7)
})

it('passes everything else byte for byte, whatever pieces it arrives in', async () => {
  const odd =
    '{ "method" : "turn/start", "params": {"text": "a\u2028b\\n\\r ü 😀", "config": {"projects": 1}} }'
  const long = JSON.stringify({ id: 2, result: 'x'.repeat(3_000_000) })
  const bytes = Buffer.from(`${odd}\n${long}\n`)
  const pieces = [bytes.subarray(0, 55), bytes.subarray(55, 60), bytes.subarray(60)]
  expect((await runUntrusting(...pieces)).lines).toEqual([odd, long])
})

it('exits when it cannot parse a message, and does not pass it on', async () => {
  const { lines, code } = await runUntrusting('thread/start\n', '{"method":"thread/start"}\n')
  expect(lines).toEqual([])
  expect(code).not.toBe(0)
})
