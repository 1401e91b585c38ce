/** A copy of a Craik home with running sandboxes never affects the sandboxes of the original. */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { SandboxHome } from '../sandbox-home.ts'

const LIMIT_MS = 200_000
const BEAT = 'while :; do echo beat >> beats; sleep 0.1; done'
const COUNT = 'a=$(wc -l < beats); sleep 1; b=$(wc -l < beats); [ "$b" -gt "$a" ] && echo goes on'

interface Listed {
  readonly id: string
  readonly state: string
  readonly notice?: string
}

async function startBeat(home: SandboxHome, id: string): Promise<void> {
  const detached = await home.run(['sandbox', 'exec', id, '--detach', '--', 'sh', '-c', BEAT])
  expect(detached.code, detached.stderr).toBe(0)
}

async function expectBeat(home: SandboxHome, id: string): Promise<void> {
  const ran = await home.run(['sandbox', 'exec', id, '--', 'sh', '-c', COUNT])
  expect(ran, ran.stderr).toMatchObject({ code: 0, stdout: 'goes on\n' })
}

async function expectDone(ran: Promise<{ readonly code: number | null; readonly stderr: string }>) {
  const { code, stderr } = await ran
  expect(code, stderr).toBe(0)
}

/** Copies the home as a user does, and stops everything in the copy afterwards. */
function copyOf(home: SandboxHome) {
  const folder = home.path('copy')
  execFileSync('cp', ['-a', home.home, folder])
  const env = { CRAIK_HOME: folder }
  return {
    folder,
    run: (args: readonly string[]) => home.run(args, { env }),
    json: <T>(args: readonly string[]) => home.json<T>([...args, '--format', 'json'], { env }),
    async [Symbol.asyncDispose]() {
      await home.run(['sandbox', 'delete', '--all', '--yes'], { env })
      await home.run(['supervisor', 'stop'], { env })
    },
  }
}

it('the sandboxes of a home keep running when a copy of it lists, stops, resumes and deletes them', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const { id } = await home.create()
  await startBeat(home, id)
  await using copy = copyOf(home)

  const notice = expect.stringContaining(`it runs in another home (${home.home})`)
  expect(await copy.json<Listed[]>(['sandbox', 'list'])).toMatchObject([{ id, state: 'lost', notice }])
  expect(await copy.json<Listed>(['sandbox', 'show', id])).toMatchObject({ id, state: 'lost', notice })
  await expectDone(copy.run(['sandbox', 'stop', id]))
  const resumed = await copy.run(['sandbox', 'resume', id])
  expect(resumed.stderr).toContain(`runs in another home (${home.home})`)
  expect(resumed.stderr).toContain(`CRAIK_HOME=${home.home} craik sandbox stop ${id}`)
  expect(resumed.code).toBe(ERRORS.conflict.exit)
  await expectDone(copy.run(['receipts', 'verify']))
  await expectBeat(home, id)

  // Without the original's supervisor, only the sandbox itself shows which home it belongs to.
  await expectDone(home.run(['supervisor', 'stop']))
  await expectDone(copy.run(['supervisor', 'stop']))
  await expectDone(copy.run(['sandbox', 'delete', id, '--yes']))
  expect(existsSync(join(copy.folder, 'sandboxes', id))).toBe(false)
  await expectBeat(home, id)
})

it('deleting sandboxes as the first command in a copy stops nothing in the original', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const workspace = home.workspace('project', { 'README.md': 'mine\n' })
  const inPlace = await home.create(['--workspace', workspace, '--in-place'])
  const onHost = await home.create(['--isolation', 'none'])
  for (const { id } of [inPlace, onHost]) await startBeat(home, id)
  const guarded = readdirSync(workspace).sort()
  await expectDone(home.run(['supervisor', 'stop']))
  await using copy = copyOf(home)
  await expectDone(copy.run(['sandbox', 'delete', '--all', '--yes']))
  expect(await copy.json<Listed[]>(['sandbox', 'list'])).toEqual([])
  // The copy does not remove the protected files that the original's sandbox added to the workspace.
  expect(readdirSync(workspace).filter((name) => name !== 'beats')).toEqual(
    guarded.filter((name) => name !== 'beats'),
  )
  for (const { id } of [inPlace, onHost]) await expectBeat(home, id)
})

it('a sandbox that was stopped in the original runs in the copy, but only in one of the two at a time', {
  timeout: LIMIT_MS,
}, async () => {
  await using home = await SandboxHome.open({ identity: 'user' })
  const { id } = await home.create()
  await startBeat(home, id)
  await using copy = copyOf(home)
  await expectDone(home.run(['sandbox', 'stop', id]))
  expect(await copy.json<Listed[]>(['sandbox', 'list'])).toMatchObject([{ id, state: 'lost' }])
  await expectDone(copy.run(['sandbox', 'resume', id]))
  expect(await copy.run(['sandbox', 'exec', id, '--', 'echo', 'here'])).toMatchObject({ stdout: 'here\n' })
  const refused = await home.run(['sandbox', 'resume', id])
  expect(refused.stderr).toContain(`runs in another home (${copy.folder})`)
  await expectDone(copy.run(['sandbox', 'stop', id]))

  // The user or the reaper cleans up the copy much later.
  await expectDone(home.run(['sandbox', 'resume', id]))
  await startBeat(home, id)
  await expectDone(copy.run(['sandbox', 'delete', id, '--yes']))
  await expectBeat(home, id)
})
