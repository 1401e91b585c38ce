/**
 * Sandbox decisions: behaviors 26–30 of the original Craik, and its known defects in requests and inline shell
 * commands.
 */
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { REFERENCE } from '../../src/lib/ids.ts'
import type { GrantTerms } from '../../src/policy/grant.ts'
import { POLICY_OPERATOR } from '../../src/policy/policy.fixture.ts'
import { readBuiltInPolicy } from '../../src/policy/profiles.ts'
import type { Receipt } from '../../src/receipts/schema.ts'
import { decideSandboxAction, type SandboxAnswer } from '../../src/sandboxes/decision.ts'
import { replaySandboxDecision } from '../../src/sandboxes/replay-sandbox.ts'
import { type SandboxScene, sandboxScene } from '../../src/sandboxes/sandbox.fixture.ts'
import type { SandboxRequestInput } from '../../src/sandboxes/sandbox-request.ts'
import { INLINE } from './inline-shell.ts'

type Kind = SandboxRequestInput['kind']

const KINDS: readonly Kind[] = ['local_process', 'remote_shell', 'container', 'browser_tool']

/** The fields that each kind needs besides the controls, and a grant that matches it. */
const OWN: Record<Kind, { readonly fields: Record<string, unknown>; readonly terms: Partial<GrantTerms> }> = {
  local_process: {
    fields: { backend_id: 'sandbox_local_process', command_ref: 'fixture-action' },
    terms: { capability: 'shell.execute' },
  },
  remote_shell: {
    fields: {
      backend_id: 'sandbox_remote_shell',
      command_ref: 'fixture-action',
      target: {
        id: 'build-host',
        host_ref: 'config:build-host',
        user_ref: 'config:build-user',
        port_ref: 'config:build-port',
        auth_ref_name: 'BUILD_SSH_LOGIN',
      },
    },
    terms: { capability: 'shell.remote.execute', target: { ref: 'build-host/fixture-action' } },
  },
  container: {
    fields: {
      backend_id: 'sandbox_container',
      command_ref: 'fixture-action',
      image_ref: 'image:all-harness',
      network_mode: 'none',
      mounts: [{ source_ref: 'workspace', target_path: '/workspace', mode: 'read_only' }],
      env_ref_names: ['CONFIG_LANG'],
      privileged: false,
    },
    terms: { capability: 'container.run' },
  },
  browser_tool: {
    fields: { backend_id: 'sandbox_browser_tool', tool_name: 'browser', action_ref: 'fixture-action' },
    terms: { capability: 'browser.use', operations: ['use'] },
  },
}

const AVAILABLE = { isolation: 'process' } as const

let scene: SandboxScene
beforeEach(async () => {
  scene = await sandboxScene()
})

async function complete(kind: Kind, changes: Record<string, unknown> = {}): Promise<SandboxRequestInput> {
  return {
    kind,
    operator: POLICY_OPERATOR,
    scope: { task_id: 'task-1' },
    policy_envelope_id: 'policy_task-1',
    capability_grant_id: await scene.grant('fixture-action', OWN[kind].terms),
    receipt_id: scene.receiptId,
    ...OWN[kind].fields,
    ...changes,
  } as SandboxRequestInput
}

function decide(request: SandboxRequestInput): Promise<SandboxAnswer> {
  return decideSandboxAction(scene.store, scene.store.log, request, { availability: AVAILABLE })
}

async function newest(): Promise<Receipt['body']> {
  return (await scene.store.bodies()).at(-1)!
}

describe('26: a complete request', () => {
  it.each(KINDS)('for a %s is allowed and writes a begin receipt', async (kind) => {
    const answer = await decide(await complete(kind))
    expect(answer.decision).toEqual({
      status: 'allowed',
      allowed: true,
      rule: 'automation.granted',
      reason: 'allowed by rule automation.granted',
      required_controls: ['policy_envelope', 'capability_grant', 'receipt', 'redaction'],
      missing: [],
      grant_outcome: 'usable',
    })
    expect(await newest()).toMatchObject({
      kind: 'sandbox_action',
      phase: 'begin',
      target: 'sandbox_action:fixture-action',
      links: { backend_id: OWN[kind].fields.backend_id, grant_outcome: 'usable', task_id: 'task-1' },
      decision: { effect: 'allow', replayable: true },
    })
    if (answer.allowed) await answer.open.end({ status: 'skipped' })
    expect(await scene.store.tables.openReceipts.list()).toEqual([])
  })

  it('spends one use of its grant', async () => {
    const request = await complete('container')
    expect((await decide(request)).allowed).toBe(true)
    expect((await decide(request)).decision).toMatchObject({ allowed: false, grant_outcome: 'used_up' })
  })
})

describe('27: a missing control', () => {
  const controls: [string, string, string, string][] = [
    ['policy_envelope_id', 'sandbox.policy', 'a policy envelope is required', 'policy_envelope'],
    ['capability_grant_id', 'sandbox.grant', 'a capability grant is required', 'capability_grant'],
    ['receipt_id', 'sandbox.receipt', 'a receipt is required', 'receipt'],
  ]
  for (const kind of KINDS) {
    it.each(controls)(`denies a ${kind}: %s, with the rule %s`, async (field, rule, reason, control) => {
      for (const nothing of [undefined, '']) {
        const { decision, allowed } = await decide(await complete(kind, { [field]: nothing }))
        expect(allowed).toBe(false)
        expect(decision).toMatchObject({ status: 'denied', rule, reason, missing: [control] })
        expect(await newest()).toMatchObject({ kind: 'denial', status: 'denied', decision: { rule } })
      }
    })
  }

  it.each([
    [
      'policy_envelope_id',
      'policy_nobody-made',
      'sandbox.policy_unknown',
      'the policy envelope does not exist',
    ],
    [
      'capability_grant_id',
      'grant_01JCQ3V8Z0W4N5T6R7Y8K9M2PD',
      'sandbox.grant_unknown',
      'the capability grant does not exist',
    ],
    [
      'receipt_id',
      'rcpt_01JCQ3V8Z0W4N5T6R7Y8K9M2PD',
      'sandbox.receipt_unknown',
      'the receipt is not in the log',
    ],
  ])('includes an id that does not exist: %s', async (field, id, rule, reason) => {
    for (const kind of KINDS) {
      const { decision } = await decide(await complete(kind, { [field]: id }))
      expect(decision).toMatchObject({ allowed: false, rule, reason })
    }
  })

  it('is not replaced by a receipt, because a receipt grants nothing', async () => {
    const { decision } = await decide(
      await complete('local_process', { capability_grant_id: scene.receiptId }),
    )
    expect(decision).toMatchObject({ rule: 'sandbox.grant_is_receipt', grant_outcome: 'not_a_grant' })
  })

  it.each([
    ['expired', async () => scene.clock.advance(9 * 3600 * 1000), {}],
    ['wrong_scope', async () => {}, { scope: { task_id: 'task-2' } }],
    ['wrong_subject', async () => {}, { subject: 'local-user:eve' }],
    ['wrong_target', async () => {}, { target: { ref: 'another-command' } }],
    ['wrong_target', async () => {}, { target: { ref: 'fixture-action', paths: ['src/**'] } }],
    ['wrong_capability', async () => {}, { capability: 'shell.test' as const }],
  ])('includes a grant that does not match: %s', async (outcome, before, terms) => {
    const capability_grant_id = await scene.grant('fixture-action', terms)
    await before()
    const { decision } = await decide(await complete('local_process', { capability_grant_id }))
    expect(decision).toMatchObject({ allowed: false, grant_outcome: outcome })
  })

  it('is not the only reason for a denial: strict denies shell.execute even with a matching grant', async () => {
    scene = await sandboxScene('strict')
    const { decision } = await decide(await complete('local_process'))
    expect(decision).toMatchObject({ allowed: false, rule: 'strict.never' })
  })
})

describe('28: an inline shell command', () => {
  it.each(INLINE)('is refused in every kind of sandbox: %j', async (text) => {
    for (const kind of KINDS) {
      const field = kind === 'browser_tool' ? 'action_ref' : 'command_ref'
      const { decision, allowed } = await decide(await complete(kind, { [field]: text }))
      expect(allowed, kind).toBe(false)
      expect(decision, kind).toMatchObject({
        rule: 'sandbox.inline_command',
        reason: 'inline shell is not allowed: name a registered command',
      })
      const body = await newest()
      expect(body).toMatchObject({ kind: 'denial', target: `sandbox_action:${OWN[kind].fields.backend_id}` })
      if (text.trim().length > 3)
        expect(JSON.stringify(body)).not.toContain(JSON.stringify(text).slice(1, -1))
    }
  })

  it('is any text that is not a reference, and a reference is allowed only once it is registered', async () => {
    const request = await complete('local_process')
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 40 }), async (command_ref) => {
        const { decision } = await decide({ ...request, command_ref } as SandboxRequestInput)
        const rule = REFERENCE.test(command_ref) ? 'sandbox.command_unknown' : 'sandbox.inline_command'
        expect(decision).toMatchObject({ allowed: false, rule })
      }),
      { numRuns: 200 },
    )
  })

  it('does not replace registration: an unknown reference is refused', async () => {
    for (const kind of ['local_process', 'remote_shell', 'container'] as const) {
      const { decision } = await decide(await complete(kind, { command_ref: 'rm' }))
      expect(decision).toMatchObject({
        rule: 'sandbox.command_unknown',
        hint: expect.stringContaining('craik command register'),
      })
    }
  })
})

describe('29: an unsafe request', () => {
  it.each([
    [
      'the bridge network',
      { network_mode: 'bridge' },
      'sandbox.network',
      'a container cannot join the bridge network',
    ],
    [
      'a writable mount',
      { mounts: [{ source_ref: 'workspace', target_path: '/workspace', mode: 'read_write' }] },
      'sandbox.mount',
      'a container cannot have a writable mount',
    ],
    ['privileges', { privileged: true }, 'sandbox.privileged', 'a container cannot be privileged'],
  ])('for a container is denied: %s', async (_, changes, rule, reason) => {
    expect((await decide(await complete('container', changes))).decision).toMatchObject({
      rule,
      reason,
      allowed: false,
    })
  })

  it('includes a remote command without a login or without a complete target', async () => {
    const { target } = OWN.remote_shell.fields as { target: Record<string, string> }
    const without = async (name: string) =>
      (await decide(await complete('remote_shell', { target: { ...target, [name]: undefined } }))).decision
        .rule
    expect(await without('auth_ref_name')).toBe('sandbox.auth')
    for (const name of ['host_ref', 'user_ref', 'port_ref'])
      expect(await without(name)).toBe('sandbox.target')
    expect((await decide(await complete('remote_shell', { target: undefined }))).decision.rule).toBe(
      'sandbox.target',
    )
  })

  it.each(['root@host', 'config:token=abc', 'ops@build-host'])(
    'includes a reference that contains an account or a token: %s',
    async (value) => {
      const { target } = OWN.remote_shell.fields as { target: Record<string, string> }
      for (const name of ['id', 'host_ref', 'user_ref', 'port_ref', 'auth_ref_name']) {
        const request = await complete('remote_shell', { target: { ...target, [name]: value } })
        await expect(decide(request)).rejects.toMatchObject({ code: 'usage' })
      }
    },
  )

  it('includes a command on a machine other than the granted one', async () => {
    const { target } = OWN.remote_shell.fields as { target: Record<string, string> }
    const request = await complete('remote_shell', { target: { ...target, id: 'production' } })
    expect((await decide(request)).decision).toMatchObject({ allowed: false, grant_outcome: 'wrong_target' })
  })

  it('includes an unavailable isolation, which is never replaced by a weaker one', async () => {
    const request = await complete('local_process')
    const answer = await decideSandboxAction(scene.store, scene.store.log, request)
    expect(answer.decision).toMatchObject({ allowed: false, rule: 'sandbox.isolation' })
  })
})

describe('the order of the checks', () => {
  it('is kind, backend, target, capability, unsafe, policy, grant, receipt, command, isolation', async () => {
    // Every field is wrong at first. Each step fixes the field that the previous step reported.
    const { target } = OWN.remote_shell.fields as { target: Record<string, string> }
    const wrong = {
      backend_id: 'sandbox_local_process',
      target: { ...target, host_ref: undefined, auth_ref_name: undefined },
      capability: 'repo.write',
      policy_envelope_id: undefined,
      capability_grant_id: undefined,
      receipt_id: undefined,
      command_ref: 'ls -la',
    }
    const steps: [string, Record<string, unknown>][] = [
      ['sandbox.kind', {}],
      ['sandbox.backend', { backend_id: 'sandbox_nowhere' }],
      ['sandbox.target', { backend_id: 'sandbox_remote_shell' }],
      ['sandbox.capability', { target: { ...target, auth_ref_name: undefined } }],
      ['sandbox.auth', { capability: 'shell.remote.execute' }],
      ['sandbox.policy', { target }],
      ['sandbox.grant', { policy_envelope_id: 'policy_task-1' }],
      ['sandbox.receipt', { capability_grant_id: await scene.grant('another-command') }],
      ['sandbox.inline_command', { receipt_id: scene.receiptId }],
      ['sandbox.command_unknown', { command_ref: 'unregistered' }],
      ['default_deny', { command_ref: 'fixture-action' }],
    ]
    let request = await complete('remote_shell', wrong)
    for (const [rule, mend] of steps) {
      request = { ...request, ...mend } as SandboxRequestInput
      expect((await decide(request)).decision.rule).toBe(rule)
    }
  })
})

describe('30: receipts', () => {
  it('of a denial record who, what, where and under which controls', async () => {
    const request = await complete('container', { network_mode: 'bridge' })
    await decide(request)
    expect(await newest()).toMatchObject({
      kind: 'denial',
      phase: 'point',
      status: 'denied',
      operator: POLICY_OPERATOR,
      capability: 'container.run',
      operation: 'run',
      target: 'sandbox_action:fixture-action',
      links: {
        backend_id: 'sandbox_container',
        command_ref: 'fixture-action',
        policy_envelope_id: 'policy_task-1',
        grant_id: request.capability_grant_id,
        receipt_ids: [scene.receiptId],
        task_id: 'task-1',
      },
      metadata: { denied_kind: 'sandbox_action', backend_kind: 'container', image_ref: 'image:all-harness' },
    })
  })

  it('of a browser record facts about a result, never its content', async () => {
    const content = {
      body: 'b',
      cookies: 'c',
      dom: 'd',
      headers: {},
      html: 'h',
      payload: 'p',
      screenshot: 's',
    }
    const result_metadata = {
      ...content,
      storage_state: {},
      storageState: {},
      text: 't',
      session_token: 'abc',
      status: 200,
      nested: { html: '<p>', ok: true },
    }
    const answer = await decide(await complete('browser_tool', { result_metadata }))
    expect((await newest()).metadata).toMatchObject({
      tool_name: 'browser',
      redacted_result_metadata: { status: 200, nested: { ok: true } },
    })
    const stored = (await newest()).metadata!.redacted_result_metadata as object
    expect(Object.keys(stored).sort()).toEqual(['nested', 'status'])
    if (answer.allowed) await answer.open.end({ status: 'skipped' })
  })

  it('can be recomputed, and an edited receipt gives a different decision', async () => {
    const requests = await Promise.all([
      ...KINDS.map((kind) => complete(kind)),
      complete('local_process', { receipt_id: undefined }),
      complete('local_process', { capability_grant_id: scene.receiptId }),
      complete('local_process', { command_ref: 'a | b' }),
      complete('container', { privileged: true }),
      complete('local_process', { capability_grant_id: await scene.grant('another-command') }),
    ])
    const text = readBuiltInPolicy('automation')
    for (const request of requests) {
      await decide(request)
      const body = await newest()
      expect(await replaySandboxDecision(body, () => text)).toBe('agrees')
      const { decision } = body
      const effect = decision!.effect === 'allow' ? 'deny' : 'allow'
      const edited: Receipt['body'][] = [
        { ...body, decision: { ...decision!, effect } },
        { ...body, decision: { ...decision!, rule: 'sandbox.kind' } },
        { ...body, operator: 'local-user:eve' },
        { ...body, target: 'sandbox_action:other' },
        { ...body, links: { ...body.links, backend_id: 'sandbox_other' } },
        { ...body, links: { ...body.links, grant_id: 'grant_other' } },
        { ...body, links: { ...body.links, policy_envelope_id: 'policy_other' } },
      ]
      for (const forged of edited) expect(await replaySandboxDecision(forged, () => text)).toBe('differs')
    }
  })
})
