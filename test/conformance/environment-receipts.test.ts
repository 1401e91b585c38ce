/** Environment receipts: behaviors 23–25 of the original Craik, and its known defects in receipts and redaction. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { newId, type ReceiptId } from '../../src/lib/ids.ts'
import { decide } from '../../src/policy/decide.ts'
import { buildEnvelope, createEnvelope } from '../../src/policy/envelope.ts'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import { type PreparedReceipt, prepareReceipt } from '../../src/receipts/prepare.ts'
import type { ReceiptRef } from '../../src/receipts/receipt-writer.ts'
import type { ReceiptLinks } from '../../src/receipts/schema.ts'
import { procedure } from '../../src/store/store.ts'
import { TestHome } from '../craik.ts'
import { beginDraft, draft, type LiveLog, openLog, TOKEN } from '../e2e/live-log.ts'

const AGENT = 'agent:octo'

const LINKS: Required<Omit<ReceiptLinks, 'secret_ref' | 'sandbox_id' | 'job_id'>> = {
  session_id: 'agent_project_openai_20261115091244',
  task_id: 'task_fix-parser',
  run_id: 'run_2m8q',
  handoff_id: 'handoff_7f3k',
  policy_envelope_id: 'policy_task_fix-parser',
  provider_id: 'provider_openai',
  provider_result_count: 4,
  backend_id: 'backend_local_process',
  route_id: 'route_1',
  target_id: 'target_1',
  grant_id: 'grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PD',
  grant_outcome: 'usable',
  command_ref: 'fixture-action',
  receipt_ids: ['rcpt_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'],
}

let home: TestHome
let live: LiveLog

beforeAll(async () => {
  home = new TestHome()
  live = await openLog(home.home)
})
afterAll(async () => {
  await live[Symbol.asyncDispose]()
  home[Symbol.dispose]()
})

describe('23: links', () => {
  it.each(['provider_action', 'sandbox_action', 'environment_decision'] as const)(
    'of a %s are stored unchanged',
    async (kind) => {
      const { id } = await live.log.append(draft({ kind, capability: 'model.chat', links: LINKS }))
      const { body } = await live.receipt(id)
      expect(body).toMatchObject({ kind, capability: 'model.chat', target: 'fixture-action', phase: 'point' })
      expect(body.links).toEqual(LINKS)
    },
  )

  it('of a begin receipt are also in its end receipt, with the links that were added in between', async () => {
    const { grant_outcome: _, provider_result_count: __, ...known } = LINKS
    const open = await live.log.begin(beginDraft({ links: known, target: 'sandbox_action:fixture-action' }))
    const end = await open.end({ status: 'failed', links: { provider_result_count: 2 } })
    expect((await live.receipt(end.id)).body).toMatchObject({
      phase: 'end',
      status: 'failed',
      begin_id: open.id,
      target: 'sandbox_action:fixture-action',
      links: { ...known, provider_result_count: 2 },
    })
  })

  it('filter the list of receipts', async () => {
    const links = { session_id: 'ses_filter', task_id: 'task_filter' }
    const { id } = await live.log.append(draft({ links }))
    const rows = await live.store.read((tables) => tables.receipts.find({ sessionId: 'ses_filter' }, 10))
    expect(rows.map((row) => row.id)).toEqual([id])
  })
})

describe('24: a denial', () => {
  it('records the request, its subject, the policy, and the rule that denied it', async () => {
    const decision = await askForShell('task_denied', {
      links: { handoff_id: 'handoff_1', backend_id: 'backend_local_process', command_ref: 'fixture-action' },
    })
    expect(decision).toMatchObject({ effect: 'deny', rule: 'strict.never' })
    if (decision.effect !== 'deny') return
    const { body } = await live.receipt(decision.receipt.id)
    expect(body).toMatchObject({
      kind: 'denial',
      status: 'denied',
      phase: 'point',
      operator: AGENT,
      capability: 'shell.execute',
      operation: 'run',
      target: 'fixture-action',
      links: {
        task_id: 'task_denied',
        session_id: 'ses_1',
        policy_envelope_id: 'policy_task_denied',
        handoff_id: 'handoff_1',
        backend_id: 'backend_local_process',
        command_ref: 'fixture-action',
      },
      decision: { effect: 'deny', rule: 'strict.never', replayable: true },
      metadata: { denied_kind: 'sandbox_action' },
    })
    expect(body.decision?.policy_digest).toMatch(/^sha256:[0-9a-f]{64}$/)
  })

  it('leaves no open receipt, because no action follows that could end', async () => {
    await askForShell('task_denied_2')
    expect(await live.store.read((tables) => tables.openReceipts.list())).toEqual([])
  })
})

describe('25: payloads', () => {
  const payloads = {
    command: 'rm -rf build',
    command_payload: { argv: ['rm'] },
    credentials: { user: 'octo' },
    env: { HOME: '/root' },
    environment: { HOME: '/root' },
    environment_variables: ['HOME'],
    payload: 'body',
    raw_command: 'rm',
    secret: 'x',
    stderr: 'oops',
    stdin: 'y',
    stdout: 'done',
    target: '/etc/passwd',
    target_payload: {},
    // The same keys in other notations.
    rawCommand: 'rm',
    'Target-Payload': 1,
  }

  it('are removed and listed, and safe metadata stays', async () => {
    const body = await append({ ...payloads, safe: 'reference-1', count: 3, flag: false, none: null })
    expect(body.metadata).toEqual({ safe: 'reference-1', count: 3, flag: false, none: null })
    expect(body.redacted_fields).toEqual(
      Object.keys(payloads)
        .map((key) => `$.metadata.${key}`)
        .sort(),
    )
  })

  it('are removed at any depth, also in lists', async () => {
    const body = await append({ steps: [{ safe: 1, inner: { stdout: 'deep', safe: 2 } }, { env: {} }] })
    expect(body.metadata).toEqual({ steps: [{ safe: 1, inner: { safe: 2 } }, {}] })
    expect(body.redacted_fields).toEqual(['$.metadata.steps[0].inner.stdout', '$.metadata.steps[1].env'])
  })

  it('cannot hide in free text: only references, integers and booleans are kept', async () => {
    const body = await append({ note: 'the command was rm -rf', list: ['ok', 'two words'], half: 0.5 })
    expect(body.metadata).toEqual({ list: ['ok', null] })
    expect(body.redacted_fields).toEqual(['$.metadata.half', '$.metadata.list[1]', '$.metadata.note'])
  })

  it('cannot hide in metadata keys or in the list of removed fields', async () => {
    const body = await append({
      'the command was rm -rf': 1,
      'some text': { stdout: 'x' },
      [TOKEN]: 'some text',
      nested: { [TOKEN]: 1 },
    })
    const text = JSON.stringify(body)
    expect(text).not.toMatch(/the command|some text/)
    expect(text).not.toContain(TOKEN)
    expect(body.redacted_fields).toContain('$.metadata[…]')
  })

  it('that the caller lists add no text and no secret to the receipt', async () => {
    const { id } = await live.log.append(draft({ redacted_fields: ['$.metadata.body', `$.${TOKEN}`] }))
    const { body } = await live.receipt(id)
    expect(body.redacted_fields).toContain('$.metadata.body')
    expect(JSON.stringify(body)).not.toContain(TOKEN)
    await expectRefusal(draft({ redacted_fields: ['rm -rf build'] }), /redacted_fields/)
  })

  it('do not prevent a receipt, however many or deeply nested they are', async () => {
    const body = await append({
      ...Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`key${i}`, 'two words'])),
      ['a'.repeat(190)]: { ['b'.repeat(190)]: { stdout: 'x' } },
    })
    expect(body.redacted_fields).toHaveLength(200)
  })
})

describe('redaction', () => {
  it('keeps token counts readable, in measures and in metadata', async () => {
    const counts = {
      prompt_tokens: 12,
      max_tokens: 4096,
      provider_token_budget_remaining: 7,
      total_tokens: 0,
    }
    const measures = [{ name: 'input_tokens', value: 18_204, source: 'observed' as const }]
    const { id } = await live.log.append(draft({ metadata: counts, measures }))
    const { body } = await live.receipt(id)
    expect(body).toMatchObject({ metadata: counts, measures })
    expect(body.redacted_fields).toBeUndefined()
  })

  it('masks secrets by key name and by format, and lists the masked fields', async () => {
    const body = await append({ api_key: 'abc', seen: TOKEN, aws: 'AKIAIOSFODNN7EXAMPLE', safe: 'x' })
    expect(body.metadata).toEqual({
      api_key: '[REDACTED]',
      seen: '[REDACTED]',
      aws: '[REDACTED]',
      safe: 'x',
    })
    expect(body.redacted_fields).toEqual(['$.metadata.api_key', '$.metadata.aws', '$.metadata.seen'])
  })

  it('refuses a secret where only a reference is allowed, and writes nothing', async () => {
    const before = await size()
    await expectRefusal(draft({ target: TOKEN }), /target/)
    await expectRefusal(draft({ links: { session_id: TOKEN } }), /session_id/)
    await expectRefusal(draft({ digests: { [TOKEN]: `sha256:${'0'.repeat(64)}` } }), /digests/)
    expect(await size()).toBe(before)
  })

  it('reports the error without repeating the secret', async () => {
    const failure = await live.log.append(draft({ target: TOKEN })).catch((error: Error) => error)
    expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain(TOKEN)
  })

  it('writes no planted token to any file of the Craik home', async () => {
    await append({ a: TOKEN, b: [TOKEN], c: { token: TOKEN }, [TOKEN]: TOKEN })
    const files = readdirSync(home.home, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    )
    expect(files.length).toBeGreaterThan(1)
    for (const { parentPath, name } of files)
      expect(readFileSync(join(parentPath, name)).includes(TOKEN), name).toBe(false)
  })
})

describe('the closed schema', () => {
  it.each([
    ['reason', { reason: 'because' }],
    ['summary', { summary: 'all went well' }],
    ['result', { result: { status: 'passed', summary: 'x' } }],
    ['message', { message: 'x' }],
    ['an unknown link', { links: { operator_note: 'x' } }],
    ['an unknown field of a decision', { decision: { ...allow(), reason: 'x' } }],
    ['an unknown kind', { kind: 'note' }],
    ['an unknown status', { status: 'ok' }],
    ['text outside a shell invocation', { shell: shellFields() }],
    ['a link that is a sentence', { links: { task_id: 'fix the parser' } }],
    ['a measure that is no integer', { measures: [{ name: 'cost', value: 0.5, source: 'observed' }] }],
    ['a measure of unknown origin', { measures: [{ name: 'cost', value: 1, source: 'guessed' }] }],
  ])('refuses %s', async (_, provided) => {
    const before = await size()
    await expectRefusal(draft(provided as never), /does not match its schema/)
    expect(await size()).toBe(before)
  })

  it('refuses the status passed for a denied action', async () => {
    await expectRefusal(
      draft({ decision: { ...allow(), effect: 'deny' } }),
      /denied request cannot have passed/,
    )
    await expectRefusal(draft({ kind: 'denial', status: 'passed' }), /denied or blocked/)
    const open = await live.log.begin(beginDraft({ decision: allow() }))
    await expect(open.end({ status: 'passed', shell: shellFields() })).rejects.toThrow(
      /only a shell_invocation/,
    )
    await open.end({ status: 'failed' })
  })
})

describe('the log', () => {
  const append = procedure<PreparedReceipt, ReceiptRef>('receipts.append')

  it('never overwrites a receipt: the same action twice gives two receipts', async () => {
    const [first, second] = [await live.log.append(draft()), await live.log.append(draft())]
    expect(second.id).not.toBe(first.id)
    expect(second.seq).toBeGreaterThan(first.seq)
    expect((await live.receipt(first.id)).seal.seq).toBe(first.seq)
  })

  it('refuses a reused id, and keeps the first receipt', async () => {
    const id = newId<ReceiptId>('rcpt', systemClock.nowMs())
    const ref = await live.store.write(
      append,
      prepareReceipt(id, { ...draft({ target: 'first' }), phase: 'point' }),
    )
    const before = await size()
    await expect(
      live.store.write(append, prepareReceipt(id, { ...draft({ target: 'second' }), phase: 'point' })),
    ).rejects.toMatchObject({ code: 'conflict' })
    expect(await size()).toBe(before)
    expect((await live.receipt(id)).body.target).toBe('first')
    expect((await live.receipt(id)).seal.seq).toBe(ref.seq)
  })

  it('ends a receipt only once', async () => {
    const open = await live.log.begin(beginDraft())
    await open.end({ status: 'failed' })
    await expect(open.end({ status: 'passed' })).rejects.toMatchObject({ code: 'conflict' })
    const end = await live.store.read((tables) => tables.receipts.endOf(open.id))
    expect(end?.status).toBe('failed')
  })

  it('refuses an end without a begin', async () => {
    const open = live.log.openReceipt({ id: 'rcpt_never' as ReceiptId, seq: 0 }, beginDraft())
    await expect(open.end({ status: 'passed' })).rejects.toMatchObject({ code: 'conflict' })
  })

  it('is sealed with a key, not only hashed', async () => {
    const { id } = await live.log.append(draft())
    const { seal } = await live.receipt(id)
    expect(seal.receipt_hmac).toMatch(/^[0-9a-f]{64}$/)
    expect(seal.kid).toMatch(/^[0-9a-f]{16}$/)
  })
})

describe('a receipt grants nothing', () => {
  it.each(['passed', 'a grant’s own'])('%s receipt, offered as a grant, is denied', async (which) => {
    const { id } = await live.log.append(
      which === 'passed' ? draft() : draft({ kind: 'grant', capability: 'grant.write', links: LINKS }),
    )
    const decision = await askForShell(
      `task_receipt_${which.length}`,
      {},
      { capability: 'shell.test', grant_id: id },
    )
    expect(decision).toMatchObject({ effect: 'deny', grantOutcome: 'not_a_grant' })
  })

  it('an unknown id, offered as a grant, is denied', async () => {
    const decision = await askForShell(
      'task_nothing',
      {},
      { capability: 'shell.test', grant_id: LINKS.grant_id },
    )
    expect(decision).toMatchObject({ effect: 'deny', grantOutcome: 'missing' })
  })
})

async function append(metadata: Record<string, unknown>) {
  const { id } = await live.log.append(draft({ metadata: metadata as never }))
  return (await live.receipt(id)).body
}

async function expectRefusal(
  provided: Parameters<LiveLog['log']['append']>[0],
  message: RegExp,
): Promise<void> {
  await expect(live.log.append(provided)).rejects.toThrow(message)
}

async function size(): Promise<number> {
  return ((await live.store.read((tables) => tables.receipts.last()))?.seq ?? -1) + 1
}

/** Requests, as an agent under `strict`, to run a registered command. */
async function askForShell(taskId: string, receipt: { links?: ReceiptLinks } = {}, request: object = {}) {
  const policyText = readBuiltInPolicy('strict')
  const envelope = buildEnvelope({
    taskId,
    actor: AGENT,
    profile: 'strict',
    policyText,
    nowMs: systemClock.nowMs(),
  })
  await createEnvelope(live.store, envelope, policyText, { operator: AGENT })
  return decide(
    live.store,
    live.log,
    {
      operator: AGENT,
      capability: 'shell.execute',
      operation: 'run',
      target: 'fixture-action',
      scope: { task_id: taskId, session_id: 'ses_1' },
      policy_envelope_id: envelope.id,
      ...request,
    },
    { kind: 'sandbox_action', links: {}, ...receipt },
  )
}

function allow() {
  return { effect: 'allow' as const, rule: 'strict.reads', missing: [], replayable: false }
}

function shellFields() {
  const stream = { preview: 'some text', bytes: 9, sha256: '0'.repeat(64), complete: true }
  return {
    command: 'echo hi',
    working_directory: '/',
    exit_code: 0,
    signal: null,
    outcome: 'exited' as const,
    stdout: stream,
    stderr: stream,
    duration_ms: 1,
    redactions_applied: [],
  }
}
