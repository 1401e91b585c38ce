/** `craik receipts`, for users and auditors: listing, exporting, verifying, and every way to cheat. */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Receipt, ReceiptDraft } from '../../src/receipts/schema.ts'
import { builtMain, type CommandResult, environmentOf, NODE, ROOT, run, TestHome } from '../craik.ts'
import { draft, editDatabase, openLog, startInBackground } from './live-log.ts'

const VERIFIER = join(ROOT, 'docs/verify/craik-verify.mjs')

/** A log of ten receipts: two shell commands, a denial, and five of an agent. The tests only read it. */
let home: TestHome
let receipts: Receipt[]
let lines: string[]

const AGENT_RECEIPTS: Partial<Omit<ReceiptDraft, 'phase'>>[] = [
  { kind: 'provider_action', capability: 'model.chat', links: { session_id: 'ses_a', task_id: 'task_a' } },
  { kind: 'sandbox_action', status: 'failed', links: { session_id: 'ses_a', run_id: 'run_a' } },
  { kind: 'egress', status: 'blocked', links: { session_id: 'ses_b', handoff_id: 'handoff_a' } },
  { kind: 'mcp', status: 'skipped', links: { policy_envelope_id: 'policy_a' } },
  { kind: 'login', links: { session_id: 'ses_b' } },
]

beforeAll(async () => {
  home = new TestHome()
  await home.json(['shell', 'echo one'])
  {
    await using live = await openLog(home.home)
    for (const provided of AGENT_RECEIPTS) await live.log.append(draft(provided))
  }
  expect((await home.run(['shell', '--profile', 'automation', 'touch x'])).code).toBe(77)
  await home.json(['shell', 'echo two'])
  expect(await home.run(['receipts', 'export', '-o', 'audit.jsonl'])).toMatchObject({ code: 0, stdout: '' })
  writeFileSync(home.path('craik.pub'), (await home.run(['receipts', 'key'])).stdout)
  writeFileSync(home.path('checkpoint.txt'), (await home.run(['receipts', 'checkpoint', 'export'])).stdout)
  receipts = (await home.json<Receipt[]>(['receipts', 'list'])).reverse()
  lines = readFileSync(home.path('audit.jsonl'), 'utf8').trimEnd().split('\n')
})
afterAll(() => home[Symbol.dispose]())

describe('list', () => {
  it('shows the newest first, the same in a table, in JSON and in JSON lines', async () => {
    const seqs = receipts.map(({ seal }) => seal.seq)
    expect(seqs).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    const table = (await list('--format', 'table')).stdout.trimEnd().split('\n')
    expect(table[0]).toMatch(/^ {2}# {2}time \(UTC\) +kind +status +capability +target +rule +id$/)
    expect(table.slice(1).map((row) => row.trim().split(/\s+/)[0])).toEqual(seqs.toReversed().map(String))
    for (const [i, row] of table.slice(1).toReversed().entries()) {
      expect(row).toContain(receipts[i]!.body.id)
      expect(row).toContain(receipts[i]!.body.status ?? 'begun')
    }
    const jsonl = (await list('--format', 'jsonl')).stdout.trimEnd().split('\n')
    expect(jsonl.map((line) => JSON.parse(line) as Receipt).toReversed()).toEqual(receipts)
  })

  it.each([
    [
      ['--session', 'ses_a'],
      [2, 3],
    ],
    [['--session', 'ses_b', '--kind', 'login'], [6]],
    [['--task', 'task_a'], [2]],
    [['--run', 'run_a'], [3]],
    [['--handoff', 'handoff_a'], [4]],
    [['--policy', 'policy_a'], [5]],
    [['--kind', 'denial'], [7]],
    [['--status', 'blocked'], [4]],
    [['--status', 'denied', '--since', '1h'], [7]],
    [['--until', '1h'], []],
    [['--since', '2999-01-01'], []],
    [['--until', '2999-01-01', '--kind', 'mcp'], [5]],
    [['--session', 'nobody'], []],
  ])('%j finds %j', async (flags, expected) => {
    const { code, stdout } = await list(...flags)
    expect(code).toBe(0)
    expect((JSON.parse(stdout) as Receipt[]).map(({ seal }) => seal.seq).reverse()).toEqual(expected)
  })

  it('separates --since from --until to the millisecond', async () => {
    const { at } = receipts[5]!.seal
    const since = JSON.parse((await list('--since', at)).stdout) as Receipt[]
    const until = JSON.parse((await list('--until', at)).stdout) as Receipt[]
    expect(since.length + until.length).toBe(receipts.length)
    expect(since.every(({ seal }) => seal.at >= at)).toBe(true)
    expect(until.every(({ seal }) => seal.at < at)).toBe(true)
  })

  it('pages, and prints the command for the next page with the same filters', async () => {
    const first = await list('--limit', '4', '--kind', 'shell_invocation', '--format', 'table')
    expect(first.stderr).toBe('')
    const page = await list('--limit', '3', '--kind', 'shell_invocation', '--format', 'table')
    const next = /craik (receipts list .+)\n$/.exec(page.stderr)?.[1]
    expect(next).toBe('receipts list --kind shell_invocation --limit 3 --format table --before 1')
    const second = await home.run(next!.split(' '))
    expect(second.stdout).toContain(receipts[0]!.body.id)
    expect(second.stderr).toBe('')
  })

  it.each([
    [['--limit', '0']],
    [['--limit', 'x']],
    [['--before', '-1']],
    [['--kind', 'nonsense']],
    [['--status', 'ok']],
    [['--since', 'yesterday']],
    [['--session', 'two words']],
    [['--format', 'xml']],
    [['surplus']],
  ])('refuses %j with one line and a hint', async (flags) => {
    const { code, stdout, stderr } = await list(...flags, '--format', 'table')
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
  })

  it('of an empty log is empty', async () => {
    using empty = new TestHome()
    expect((await empty.run(['receipts', 'list', '--format', 'table'])).stdout).toBe('  none\n')
    expect(await empty.json(['receipts', 'list'])).toEqual([])
    expect((await empty.run(['receipts', 'list', '--format', 'jsonl'])).stdout).toBe('')
  })
})

describe('show', () => {
  it('finds a receipt by id and by number', async () => {
    const { id } = receipts[3]!.body
    expect(await home.json(['receipts', 'show', id])).toEqual(receipts[3])
    expect(await home.json(['receipts', 'show', '3'])).toEqual(receipts[3])
  })

  it('shows how a begin receipt ended', async () => {
    const { stdout } = await home.run(['receipts', 'show', '0', '--format', 'table'])
    expect(stdout).toContain(`begun, then passed (${receipts[1]!.body.id})`)
    expect(stdout).toContain('allow by strict.operator_shell')
  })

  it.each([
    ['99', 3],
    ['rcpt_01JCQ3V8Z0W4N5T6R7Y8K9M2PD', 3],
    ['two words', 2],
    ['', 2],
    ['-1', 2],
  ])('%j exits with %i', async (id, expected) => {
    const { code, stdout, stderr } = await home.run(['receipts', 'show', id])
    expect(code).toBe(expected)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^craik: [^\n]+\n {2}[^\n]+\n$/)
  })
})

describe('tail', () => {
  it('shows the newest receipts, the oldest of them first', async () => {
    const { stdout } = await home.run(['receipts', 'tail', '-n', '3'])
    const shown = stdout.trimEnd().split('\n')
    expect(shown.map((line) => (JSON.parse(line) as Receipt).seal.seq)).toEqual([7, 8, 9])
    const table = await home.run(['receipts', 'tail', '-n', '2', '--kind', 'mcp', '--format', 'table'])
    expect(table.stdout).toContain(receipts[5]!.body.id)
  })

  it('with --follow shows each new receipt once, until Ctrl-C', async () => {
    using busy = new TestHome()
    await using live = await openLog(busy.home)
    const first = await live.log.append(draft({ kind: 'egress' }))
    const tail = startInBackground(busy, ['receipts', 'tail', '--follow', '--kind', 'egress'])
    await tail.waitForOutput(first.id)
    const others = await Promise.all(
      Array.from({ length: 20 }, () => live.log.append(draft({ kind: 'egress' }))),
    )
    const hidden = await live.log.append(draft({ kind: 'login' }))
    const last = await live.log.append(draft({ kind: 'egress' }))
    await tail.waitForOutput(last.id)
    tail.child.kill('SIGINT')
    const { code, stdout, stderr } = await tail.ended
    expect([code, stderr]).toEqual([0, ''])
    const seen = stdout
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as Receipt).body.id)
    const bySeq = others.toSorted((a, b) => a.seq - b.seq).map(({ id }) => id)
    expect(seen).toEqual([first.id, ...bySeq, last.id])
    expect(seen).not.toContain(hidden.id)
  })
})

describe('an export', () => {
  it('verifies with the public key alone, with craik in any home and with the script without craik', async () => {
    using auditor = new TestHome()
    const ran = await auditor.run([
      'receipts',
      'verify',
      home.path('audit.jsonl'),
      '--public-key',
      home.path('craik.pub'),
    ])
    expect(ran.code).toBe(0)
    expect(JSON.parse(ran.stdout)).toMatchObject({ outcome: 'ok', receipts: 10, intact: 10, missing: [] })
    expect(existsSync(auditor.home)).toBe(false)
    const bare = await standalone(home.path('audit.jsonl'))
    expect(bare.code, bare.stderr).toBe(0)
    expect(bare.stdout).toContain('10 receipts')
    const table = await verify('audit.jsonl', '--format', 'table')
    expect(table.stdout).toMatch(/10 receipts · .+\n {2}chain ✓ {2}signatures ✓ {2}tree ✓/)
  })

  it('can be read from a pipe', async () => {
    const input = readFileSync(home.path('audit.jsonl'))
    const ran = await home.run(['receipts', 'verify', '-', '--public-key', 'craik.pub'], { input })
    expect(ran.code).toBe(0)
    expect(
      (await home.run(['receipts', 'verify', '-', '--public-key', 'craik.pub', '--replay'], { input })).code,
    ).toBe(2)
  })

  it('never overwrites a file, and reports when it cannot write one', async () => {
    expect((await home.run(['receipts', 'export', '-o', 'audit.jsonl'])).code).toBe(4)
    const { code, stderr } = await home.run(['receipts', 'export', '-o', 'no/such/folder.jsonl'])
    expect(code).toBe(2)
    expect(stderr).toMatch(/^craik: [^\n]+ENOENT[^\n]+\n {2}[^\n]+\n$/)
    using empty = new TestHome()
    expect((await empty.run(['receipts', 'export', '-o', 'none.jsonl'])).code).toBe(3)
    expect(existsSync(empty.path('none.jsonl'))).toBe(false)
  })

  it('leaves no partial file when it fails, so that a retry can use the same name', async () => {
    using large = new TestHome()
    {
      await using live = await openLog(large.home)
      const target = 'a'.repeat(200)
      for (let n = 0; n < 150; n++) await live.log.append(draft({ target }))
    }
    const limited = 'ulimit -f 100; exec "$0" "$@"'
    const args = [NODE, builtMain(), 'receipts', 'export', '-o', 'large.jsonl']
    const failed = await run('sh', ['-c', limited, ...args], { cwd: large.folder, env: environmentOf(large) })
    expect(failed, failed.stderr).toMatchObject({ code: 2, stdout: '' })
    const isOutput = (name: string) => !['.cache', 'home'].includes(name)
    expect(readdirSync(large.folder).filter(isOutput)).toEqual([])
    expect(await large.run(['receipts', 'export', '-o', 'large.jsonl'])).toMatchObject({ code: 0 })
    expect(readdirSync(large.folder).filter(isOutput)).toEqual(['large.jsonl'])
    expect(statSync(large.path('large.jsonl')).mode & 0o777).toBe(0o600)
  })

  it('goes to a file system without hard links too, and replaces no file there', async () => {
    const linkWithout = (before: string) => {
      const script = `import { promises } from 'node:fs'
        import { syncBuiltinESMExports } from 'node:module'
        promises.link = async (_, path) => {
          ${before}
          throw Object.assign(new Error('no hard links'), { code: 'EPERM', syscall: 'link' })
        }
        syncBuiltinESMExports()`
      return { nodeArguments: ['--import', `data:text/javascript,${encodeURIComponent(script)}`] }
    }
    const write = (name: string) => ['receipts', 'export', '-o', name]
    expect(await home.run(write('usb.jsonl'), linkWithout(''))).toMatchObject({ code: 0 })
    expect(readFileSync(home.path('usb.jsonl'), 'utf8')).toBe(readFileSync(home.path('audit.jsonl'), 'utf8'))
    const meanwhile = linkWithout('await promises.writeFile(path, "mine")')
    expect((await home.run(write('taken.jsonl'), meanwhile)).code).toBe(4)
    expect(readFileSync(home.path('taken.jsonl'), 'utf8')).toBe('mine')
  })

  it('requires the public key of a log', async () => {
    expect((await home.run(['receipts', 'verify', 'audit.jsonl'])).code).toBe(2)
    writeFileSync(home.path('not-a-key.pub'), 'craik.local/x+00000000+AAAA\n')
    const wrong = await home.run(['receipts', 'verify', 'audit.jsonl', '--public-key', 'not-a-key.pub'])
    expect(wrong.code).toBe(2)
    expect(wrong.stderr).toContain('does not contain the public key of a log')
  })

  /** Changes lines of the export. `at(n)` is the index of receipt n. */
  type Forgery = (lines: string[], at: (seq: number) => number) => void
  const cheats: [string, Forgery, { problem: string; seq?: number }][] = [
    ['one byte', (all, at) => edit(all, at(3), '"failed"', '"passed"'), { problem: 'edited', seq: 3 }],
    [
      'a decision',
      (all, at) => edit(all, at(7), '"effect":"deny"', '"effect":"allow"'),
      { problem: 'edited', seq: 7 },
    ],
    ['the first receipt', (all, at) => edit(all, at(0), 'echo', 'ecko'), { problem: 'edited', seq: 0 }],
    [
      'a line until it is no JSON',
      (all, at) => edit(all, at(1), '"shell":{"', '"shell":{'),
      { problem: 'edited', seq: 1 },
    ],
    ['by deleting a receipt', (all, at) => all.splice(at(4), 1), { problem: 'missing', seq: 4 }],
    ['by swapping two', (all, at) => swap(all, at(4), at(5)), { problem: 'reordered', seq: 4 }],
    ['by repeating one', (all, at) => all.splice(at(5), 0, all[at(4)]!), { problem: 'duplicated', seq: 4 }],
    ['by cutting the end off', (all, at) => all.splice(at(8)), { problem: 'truncated', seq: 8 }],
    ['the policy text', (all) => edit(all, 1, 'permit', 'Permit'), { problem: 'document_edited' }],
    ['a signature', (all) => edit(all, all.length - 1, '— craik', '— kraic'), { problem: 'foreign_key' }],
  ]

  it.each(cheats)(
    'that was changed (%s) is detected by craik and by the script',
    async (_, cheat, expected) => {
      const copy = [...lines]
      cheat(copy, (seq) => copy.findIndex((line) => line.endsWith(`"seq":${seq}}}`)))
      expect(copy).not.toEqual(lines)
      const file = home.path('cheat.jsonl')
      writeFileSync(file, `${copy.join('\n')}\n`)
      const ran = await verify(
        'cheat.jsonl',
        '--replay',
        '--side-logs',
        join(home.home, 'state/shell-output'),
      )
      expect(ran.code, ran.stderr).toBe(1)
      const { outcome, finding } = JSON.parse(ran.stdout) as {
        outcome: string
        finding: { id?: string; detail: string }
      }
      expect(outcome).toBe('tampered')
      expect(finding).toMatchObject(expected)
      if (expected.problem === 'edited') expect(finding.id).toBe(receipts[expected.seq!]!.body.id)
      const bare = await standalone(file)
      expect(bare.code).toBe(1)
      expect(bare.stdout).toMatch(/^ {2}✗ /)
      expect(bare.stdout).toContain(finding.detail)
    },
  )

  it('with another log’s key is reported as foreign', async () => {
    using other = new TestHome()
    await other.json(['shell', 'true'])
    const key = other.path('other.pub')
    writeFileSync(key, (await other.run(['receipts', 'key'])).stdout)
    const ran = await home.run(['receipts', 'verify', 'audit.jsonl', '--public-key', key])
    expect(ran.code).toBe(1)
    expect(JSON.parse(ran.stdout)).toMatchObject({ finding: { problem: 'foreign_key' }, intact: 0 })
    expect((await standalone(home.path('audit.jsonl'), [], key)).code).toBe(1)
  })

  it('without its last signature is incomplete, not tampered', async () => {
    const file = home.path('unsigned.jsonl')
    writeFileSync(file, `${lines.slice(0, -1).join('\n')}\n`)
    const ran = await verify('unsigned.jsonl')
    expect(ran.code).toBe(2)
    expect(JSON.parse(ran.stdout)).toMatchObject({ outcome: 'incomplete', receipts: 10, intact: 8 })
    expect((await standalone(file)).code).toBe(2)
  })

  it('verifies with copied side logs, and is incomplete when they are missing', async () => {
    const copy = home.path('side-logs')
    cpSync(join(home.home, 'state/shell-output'), copy, { recursive: true })
    expect((await verify('audit.jsonl', '--side-logs', copy)).code).toBe(0)
    rmSync(copy, { recursive: true })
    mkdirSync(copy)
    const ran = await verify('audit.jsonl', '--side-logs', copy)
    expect(ran.code).toBe(2)
    expect(JSON.parse(ran.stdout)).toMatchObject({ outcome: 'incomplete', side_logs: { tampered: [] } })
  })
})

describe('a proof', () => {
  it('proves that one receipt is in the log, and fails after an edit', async () => {
    const { code, stdout } = await home.run(['receipts', 'prove', receipts[7]!.body.id])
    expect(code).toBe(0)
    expect(await home.run(['receipts', 'prove', '7'])).toMatchObject({ stdout })
    const file = home.path('proof.json')
    writeFileSync(file, stdout)
    expect(JSON.parse((await verify('proof.json')).stdout)).toMatchObject({
      outcome: 'ok',
      receipts: 1,
      intact: 1,
    })
    expect((await standalone(file)).code).toBe(0)

    writeFileSync(file, stdout.replace('\\"denied\\"', '\\"passed\\"'))
    const edited = await verify('proof.json')
    expect(edited.code).toBe(1)
    expect(JSON.parse(edited.stdout)).toMatchObject({ finding: { seq: 7, id: receipts[7]!.body.id } })
    expect((await standalone(file)).code).toBe(1)

    writeFileSync(file, stdout.replace('"index":7', '"index":6'))
    expect((await verify('proof.json')).code).toBe(1)
  })

  it('cannot be replayed or compared with a checkpoint, and such options are refused', async () => {
    writeFileSync(home.path('proof-0.json'), (await home.run(['receipts', 'prove', '0'])).stdout)
    for (const flags of [['--replay'], ['--against', 'checkpoint.txt'], ['--side-logs', '.']]) {
      const { code, stdout } = await verify('proof-0.json', ...flags)
      expect([code, stdout]).toEqual([2, ''])
    }
  })

  it('of an unknown receipt is not found', async () => {
    expect((await home.run(['receipts', 'prove', '99'])).code).toBe(3)
  })
})

describe('the live log', () => {
  it('verifies with its HMACs, signatures and side logs, and a replay gives the same decisions', async () => {
    const ran = await home.run(['receipts', 'verify', '--replay', '--against', 'checkpoint.txt'])
    expect(ran.code).toBe(0)
    expect(JSON.parse(ran.stdout)).toMatchObject({
      outcome: 'ok',
      side_logs: { checked: 3, missing: [], tampered: [] },
      replay: { decisions: 3, agree: 3, not_replayable: 0, differ: [] },
    })
    expect((await verify('audit.jsonl', '--replay')).code).toBe(0)
  })

  it('is detected as tampered when a decision was forged with the log’s own key', async () => {
    using forger = copyOf(home)
    const { decision, links } = receipts[7]!.body
    const { operator, capability, operation, target } = receipts[7]!.body
    let forged: string
    {
      await using live = await openLog(forger.home)
      const passed = { kind: 'sandbox_action', status: 'passed', operator, capability, links } as const
      const flipped = { ...decision!, effect: 'allow' as const }
      ;({ id: forged } = await live.log.append({
        ...passed,
        ...(operation && { operation }),
        ...(target && { target }),
        decision: flipped as never,
      }))
    }
    expect((await forger.run(['receipts', 'verify'])).code).toBe(0)
    const { code, stdout } = await forger.run(['receipts', 'verify', '--replay'])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({
      outcome: 'tampered',
      replay: { differ: [{ id: forged, seq: 10 }] },
    })
  })

  it.each([
    ['deleted', 'DELETE FROM receipts WHERE seq = 4', 'missing'],
    ['the newest deleted, its checkpoint forgotten', 'DELETE FROM receipts WHERE seq >= 8', 'truncated'],
    ['all deleted, their checkpoints forgotten', 'DELETE FROM receipts', 'truncated'],
    ['a leaf hash replaced', `UPDATE receipts SET leaf = zeroblob(32) WHERE seq = 4`, undefined],
    ['a denial hidden from lists', `UPDATE receipts SET kind = 'egress' WHERE seq = 7`, 'edited'],
  ])('is detected as tampered when it was edited in place: %s', async (_, sql, problem) => {
    using victim = copyOf(home)
    editDatabase(victim.home, sql)
    const { code, stdout } = await victim.run(['receipts', 'verify'])
    expect(code).toBe(1)
    if (problem !== undefined) expect(JSON.parse(stdout)).toMatchObject({ finding: { problem } })
  })

  it('that was truncated with its checkpoints verifies: only a checkpoint stored elsewhere shows the loss', async () => {
    using victim = copyOf(home)
    editDatabase(victim.home, 'DELETE FROM receipts WHERE seq >= 8; DELETE FROM checkpoints WHERE size > 8')
    expect((await victim.run(['receipts', 'verify'])).code).toBe(0)
    const held = ['--against', home.path('checkpoint.txt')]
    const { code, stdout } = await victim.run(['receipts', 'verify', ...held])
    expect(code).toBe(1)
    expect(JSON.parse(stdout)).toMatchObject({ finding: { problem: 'truncated', seq: 8 } })
    expect((await victim.run(['receipts', 'consistency', home.path('checkpoint.txt')])).code).toBe(1)

    const file = victim.path('cut.jsonl')
    writeFileSync(file, (await victim.run(['receipts', 'export'])).stdout)
    expect((await verify(file)).code).toBe(0)
    expect((await verify(file, ...held)).code).toBe(1)
    expect((await standalone(file, held)).code).toBe(1)
  })

  it('that was deleted is reported as missing, because its key still exists', async () => {
    using victim = copyOf(home)
    rmSync(join(victim.home, 'state'), { recursive: true })
    for (const args of [['verify'], ['verify', '--against', home.path('checkpoint.txt')], ['key']]) {
      const { code, stdout, stderr } = await victim.run(['receipts', ...args])
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toMatch(/^craik: secrets\/log\.key exists, but its log is missing\n/)
    }
  })

  it('without its key does not get a new one', async () => {
    using victim = copyOf(home)
    rmSync(join(victim.home, 'secrets/log.key'))
    for (const args of [['verify'], ['key'], ['consistency', home.path('checkpoint.txt')]]) {
      const { code, stdout } = await victim.run(['receipts', ...args])
      expect([code, stdout]).toEqual([66, ''])
    }
    expect(existsSync(join(victim.home, 'secrets/log.key'))).toBe(false)
  })
})

describe('consistency', () => {
  it('proves that the current log continues an older one', async () => {
    using grown = copyOf(home)
    await grown.json(['shell', 'echo three'])
    writeFileSync(grown.path('new.txt'), (await grown.run(['receipts', 'checkpoint', 'export'])).stdout)
    const old = home.path('checkpoint.txt')
    const { code, stdout } = await grown.run(['receipts', 'consistency', old])
    expect(code).toBe(0)
    expect((await grown.run(['receipts', 'consistency', old, 'new.txt'])).stdout).toBe(stdout)
    const file = grown.path('consistency.json')
    writeFileSync(file, stdout)
    expect((await verify(file)).code).toBe(0)
    expect((await standalone(file)).code).toBe(0)

    const swapped = await grown.run(['receipts', 'consistency', 'new.txt', old])
    expect(swapped.code).toBe(2)
    expect(swapped.stderr).toContain('name the older checkpoint first')
  })

  it('shows that a log was rewritten, even with its own key', async () => {
    using rewritten = copyOf(home)
    // The same home, truncated to eight receipts, continues with other receipts.
    editDatabase(
      rewritten.home,
      'DELETE FROM receipts WHERE seq >= 8; DELETE FROM checkpoints WHERE size > 8',
    )
    for (const word of ['another', 'history']) await rewritten.json(['shell', `echo ${word}`])
    expect((await rewritten.run(['receipts', 'verify'])).code).toBe(0)
    const held = home.path('checkpoint.txt')
    const proof = await rewritten.run(['receipts', 'consistency', held])
    expect([proof.code, proof.stdout]).toEqual([1, ''])
    expect((await rewritten.run(['receipts', 'verify', '--against', held])).code).toBe(1)
  })

  it('refuses a file that is not a checkpoint, and an edited checkpoint', async () => {
    const note = readFileSync(home.path('checkpoint.txt'), 'utf8')
    writeFileSync(home.path('none.txt'), 'hello\n')
    expect((await home.run(['receipts', 'consistency', 'none.txt'])).code).toBe(2)
    writeFileSync(home.path('edited.txt'), note.replace('\n10\n', '\n9\n'))
    expect((await home.run(['receipts', 'consistency', 'edited.txt'])).code).toBe(1)
    const against = await home.run(['receipts', 'verify', '--against', 'edited.txt'])
    expect(against.code).not.toBe(0)
  })

  it('has no checkpoint before the first receipt', async () => {
    using empty = new TestHome()
    expect((await empty.run(['receipts', 'checkpoint', 'export'])).code).toBe(3)
  })
})

describe('the key', () => {
  it('is public, stable, and created with the first receipt', async () => {
    using fresh = new TestHome()
    expect(await fresh.run(['receipts', 'key'])).toMatchObject({ code: 3, stdout: '' })
    await fresh.json(['shell', 'true'])
    const { stdout: key } = await fresh.run(['receipts', 'key'])
    expect(key).toMatch(/^craik\.local\/[0-9a-f]{16}\+[0-9a-f]{8}\+[A-Za-z0-9+/=]{44}\n$/)
    await fresh.json(['shell', 'true'])
    expect((await fresh.run(['receipts', 'key'])).stdout).toBe(key)
  })

  it('can be rotated twice: the first public key still verifies everything, and the HMACs still verify', async () => {
    using rotated = copyOf(home)
    for (const word of ['second', 'third']) {
      const { code, stderr } = await rotated.run(['receipts', 'key', '--rotate'])
      expect(code).toBe(0)
      expect(stderr).toMatch(/rotated · receipt rcpt_/)
      await rotated.json(['shell', `echo ${word}`])
    }
    const live = await rotated.run(['receipts', 'verify', '--replay'])
    expect(live.code, live.stdout).toBe(0)
    expect(JSON.parse(live.stdout)).toMatchObject({ outcome: 'ok', receipts: 16, missing: [] })
    const file = rotated.path('rotated.jsonl')
    writeFileSync(file, (await rotated.run(['receipts', 'export'])).stdout)
    expect((await verify(file)).code).toBe(0)
    expect((await standalone(file)).code).toBe(0)
    expect((await verify(file, '--against', 'checkpoint.txt')).code).toBe(0)

    // The newest key signs a proof. `receipts key` prints that key with the others.
    const keys = (await rotated.run(['receipts', 'key'])).stdout
    expect(keys.trimEnd().split('\n')).toHaveLength(3)
    expect(keys.startsWith(readFileSync(home.path('craik.pub'), 'utf8'))).toBe(true)
    writeFileSync(rotated.path('keys.pub'), keys)
    writeFileSync(rotated.path('proof.json'), (await rotated.run(['receipts', 'prove', '0'])).stdout)
    expect((await rotated.run(['receipts', 'verify', 'proof.json', '--public-key', 'keys.pub'])).code).toBe(0)
  })
})

function list(...flags: string[]): Promise<CommandResult> {
  return home.run(['receipts', 'list', ...flags])
}

function verify(file: string, ...flags: string[]): Promise<CommandResult> {
  return home.run(['receipts', 'verify', file, '--public-key', home.path('craik.pub'), ...flags])
}

/** Runs the auditor's script, alone in an empty folder, without an environment. */
async function standalone(
  file: string,
  flags: string[] = [],
  key = home.path('craik.pub'),
): Promise<CommandResult> {
  using empty = new TestHome()
  cpSync(VERIFIER, empty.path('craik-verify.mjs'))
  const ran = await run(NODE, ['craik-verify.mjs', file, '--public-key', key, ...flags], {
    cwd: empty.folder,
    env: {},
  })
  // Node itself exits with 1 when a script throws. Such an exit must not count as a finding.
  expect(ran.stderr).toBe('')
  return ran
}

/** Creates a home that begins as a copy of another. */
function copyOf(original: TestHome): TestHome {
  const copy = new TestHome()
  cpSync(original.home, copy.home, { recursive: true })
  for (const folder of ['', 'secrets', 'state', 'state/shell-output'])
    chmodSync(join(copy.home, folder), 0o700)
  return copy
}

function edit(all: string[], index: number, from: string, to: string): void {
  expect(all[index]).toContain(from)
  all[index] = all[index]!.replace(from, to)
}

function swap(all: string[], a: number, b: number): void {
  ;[all[a], all[b]] = [all[b]!, all[a]!]
}
