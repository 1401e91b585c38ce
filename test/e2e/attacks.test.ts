/** Attacks on the command line that must fail. */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import type { Receipt } from '../../src/receipts/schema.ts'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'
import { editDatabase, isAlive, startInBackground, TOKEN, waitForFile } from './live-log.ts'

describe('an envelope with the id of another one', () => {
  it('that was created for a task does not apply to the operator’s shell', async () => {
    using home = new TestHome()
    const operator = (await home.json<{ policy_envelope: { actor: string } }>(['policy', 'show']))
      .policy_envelope.actor
    const text = readBuiltInPolicy('automation')
    const hash = createHash('sha256')
      .update(JSON.stringify([operator, 'automation', text]))
      .digest('hex')
    for (const name of [`shell_${hash.slice(0, 16)}`, `envelope_operator_${hash.slice(0, 32)}`]) {
      const show = await home.run(['policy', 'show', '--task-id', name, '--include-receipt'])
      expect(show.code).toBe(0)
    }
    const { code, stderr } = await home.run(['shell', '--profile', 'automation', 'touch ran'])
    expect(code).toBe(77)
    expect(stderr).toContain('automation.never')
    expect(existsSync(home.path('ran'))).toBe(false)
  })

  it('that was written into the database is refused before anything runs', async () => {
    using home = new TestHome()
    await home.run(['shell', 'true'])
    await home.run(['shell', '--profile', 'automation', 'true'])
    const [strict, automation] = ['strict', 'automation'].map((profile) => envelopeOf(home, profile))
    editDatabase(
      home.home,
      `UPDATE envelopes SET document =
         (SELECT replace(document, '${strict}', '${automation}') FROM envelopes WHERE id = '${strict}')
       WHERE id = '${automation}'`,
    )
    const { code, stderr } = await home.run(['shell', '--profile', 'automation', 'touch ran'])
    expect(stderr).toContain('of your commands was changed')
    expect(code).not.toBe(0)
    expect(existsSync(home.path('ran'))).toBe(false)
  })

  function envelopeOf(home: TestHome, profile: string): string {
    using database = new DatabaseSync(homeAt(home.home).database, { readOnly: true, timeout: 10_000 })
    const row = database
      .prepare(`SELECT id FROM envelopes WHERE json_extract(document, '$.profile') = ?`)
      .get(profile)
    return row!.id as string
  }
})

describe('Ctrl-C', () => {
  it('pressed twice leaves a receipt and no process', async () => {
    using home = new TestHome()
    writeFileSync(
      home.path('stubborn.sh'),
      `trap ': > asked' INT\ntrap '' TERM\nsleep 300 &\necho $! $$ > pids.part\nmv pids.part pids\nwhile :; do sleep 0.05; done\n`,
    )
    const { child, ended } = startInBackground(home, ['shell', 'sh stubborn.sh'])
    await waitForFile(home.path('pids'))
    child.kill('SIGINT')
    await waitForFile(home.path('asked'))
    child.kill('SIGINT')
    const { code } = await ended
    const pids = readFileSync(home.path('pids'), 'utf8').trim().split(' ').map(Number)
    expect(pids).toHaveLength(2)
    await expectGone(pids)
    expect(code).toBe(130)
    const [newest] = await home.json<Receipt[]>(['receipts', 'list', '--limit', '1'])
    expect(newest!.body).toMatchObject({ phase: 'end', status: 'failed', shell: { outcome: 'cancelled' } })
  })

  it('pressed three times exits at once, and leaves no process either', async () => {
    using home = new TestHome()
    writeFileSync(
      home.path('stubborn.sh'),
      `trap '' INT TERM\necho $$ > pid.part\nmv pid.part pid\nwhile :; do sleep 0.05; done\n`,
    )
    const { child, ended } = startInBackground(home, ['shell', 'sh stubborn.sh'])
    await waitForFile(home.path('pid'))
    const pid = Number(readFileSync(home.path('pid'), 'utf8'))
    for (let i = 0; i < 3; i++) {
      child.kill('SIGINT')
      await sleep(15)
    }
    const { code } = await ended
    await expectGone([pid])
    expect(code).toBe(130)
  })

  /** Fails if a process is still alive, and kills it in any case. */
  async function expectGone(pids: readonly number[]): Promise<void> {
    try {
      for (const pid of pids) await expect.poll(() => isAlive(pid)).toBe(false)
    } finally {
      for (const pid of pids) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
    }
  }
})

describe('a token in the wrong argument', () => {
  let home: TestHome
  beforeAll(() => {
    home = new TestHome()
  })
  afterAll(() => home[Symbol.dispose]())

  const grant = ['grant', 'create', '--capability', 'shell.test']
  it.each([
    [[...grant, '--operation', TOKEN, '--any-scope']],
    [[...grant, '--operation', 'run', '--any-scope', '--target', TOKEN]],
    [[...grant, '--operation', 'run', '--any-scope', '--subject', TOKEN]],
    [[...grant, '--operation', 'run', '--any-scope', '--repo', TOKEN]],
    [[...grant, '--operation', 'run', '--any-scope', '--path', `docs/${TOKEN}`]],
    [[...grant, '--operation', 'run', '--task-id', TOKEN]],
    [['policy', 'show', '--actor', TOKEN, '--include-receipt']],
    [['policy', 'show', '--task-id', TOKEN, '--include-receipt']],
    [['policy', 'show', '--task-id', TOKEN]],
    [['policy', 'test', '--subject', TOKEN]],
    [['secret', 'bind', 'KEY', '--file', `/run/keys/${TOKEN}`]],
    [['secret', 'bind', 'KEY', '--command', TOKEN]],
    [['shell', '--grant', TOKEN, 'true']],
  ])('is refused and not repeated: %j', async (args) => {
    const { code, stdout, stderr } = await home.run(args)
    expect(stderr).toMatch(/looks like a secret/)
    expect(code).toBe(2)
    expect(stdout + stderr).not.toContain(TOKEN)
    const stored = await Promise.all(
      [
        ['grant', 'list'],
        ['secret', 'list'],
        ['receipts', 'list'],
      ].map((list) => home.json<unknown[]>(list)),
    )
    expect(stored).toEqual([[], [], []])
  })
})

it('a command cannot add rows to the output of receipts show', async () => {
  using home = new TestHome()
  const folder = home.path('a\n  status    passed\u202e')
  mkdirSync(folder)
  const command = `sh -c 'exit 1' '\n  status    passed\u2028'`
  const { stdout } = await home.run(['shell', command], { cwd: folder })
  const { receipt_id } = JSON.parse(stdout) as { receipt_id: string }
  const shown = await home.run(['receipts', 'show', receipt_id, '--format', 'table'])
  expect(shown.code).toBe(0)
  expect(shown.stdout.match(/^ +status /gm)).toHaveLength(1)
  expect(shown.stdout).not.toMatch(/[\u202e\u2028]/)
})

it('a grant from the command in the denial allows the shell command exactly once', async () => {
  using home = new TestHome()
  await home.run(['policy', 'show'])
  mkdirSync(home.path('home', 'config', 'policies'), { recursive: true, mode: 0o700 })
  writeFileSync(
    home.path('home', 'config', 'policies', 'custom.cedar'),
    `@id("asked-first")
permit(principal, action == Action::"shell.operator", resource) when { context.grant.usable };
`,
    { mode: 0o600 },
  )
  const denied = await home.run(['shell', '--profile', 'custom', 'touch ran'])
  expect(denied.code).toBe(77)
  const hint = denied.stderr.trimEnd().split('\n').at(-1)!
  const [, create, use] =
    /grant it once: {2}craik (.*?) {2}\(receipt rcpt_\w+\), then: {2}craik (.*)$/.exec(hint) ?? []
  expect(use).toBe(`shell --profile custom --grant GRANT_ID 'touch ran'`)
  const { id } = await home.json<{ id: string }>(create!.split(' '))
  const granted = ['shell', '--profile', 'custom', '--grant', id, 'touch ran']
  expect((await home.run(granted)).code).toBe(0)
  expect(existsSync(home.path('ran'))).toBe(true)
  const again = await home.run(granted)
  expect(again.code).toBe(77)
  expect(again.stderr).toContain('has no uses left')
  expect((await home.run(['receipts', 'verify'])).code).toBe(0)
})
