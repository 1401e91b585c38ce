import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { type CraikError, ERRORS } from '../errors.ts'
import { ADA_USER, LifecycleStore } from '../sandboxes/lifecycle/lifecycle.fixture.ts'
import type { CliContext } from './context.ts'
import { egressCommand } from './egress.ts'

let scene: LifecycleStore
let sandboxId: string
beforeEach(async () => {
  scene = new LifecycleStore()
  sandboxId = (await scene.sandbox({ name: 'parser' })).id
})

/** Runs one command as in a pipe or a terminal. Stops `watch` after its first output. */
async function craik(argv: readonly string[], isTTY = false) {
  let stdout = ''
  let exitCode = 0
  const stop = new AbortController()
  const context = {
    home: scene.store.home,
    clock: scene.clock,
    stdout: {
      isTTY,
      write(text: string) {
        stdout += text
        if (argv[0] === 'watch') stop.abort()
      },
    },
    stderr: { write: (text: string) => (stdout += text) },
    signal: stop.signal,
    operator: async () => ADA_USER,
    store: async () => scene.store,
    setExitCode: (code: number) => {
      exitCode = code
    },
  } as unknown as CliContext
  const command = await egressCommand(context)
  await command.exitOverride().parseAsync(['node', 'craik', ...argv])
  return { stdout, exitCode, json: () => JSON.parse(stdout) }
}

const failing = async (...argv: string[]): Promise<CraikError> =>
  craik(argv).then(
    () => expect.unreachable(),
    (error) => error,
  )

describe('craik egress', () => {
  it('allows a host for one sandbox, with a grant for that sandbox only', async () => {
    const [rule] = (await craik(['allow', 'Registry.Example.com.', '--sandbox', 'parser'])).json()
    expect(rule).toMatchObject({ hosts: ['registry.example.com'], ports: [443], sandbox_id: sandboxId })
    const { grants } = scene.store.tables
    expect(JSON.parse((await grants.get(rule.grant_id))!.document)).toMatchObject({
      capability: 'network.egress',
      subject: ADA_USER,
      scope: { sandbox_id: sandboxId },
      target: { ref: `egress/${rule.id}` },
    })
    expect((await craik(['list', '--sandbox', 'parser'], true)).stdout).toMatch(
      /registry\.example\.com:443 +in 1 y|in 366 d/,
    )
  })

  it('allows the hosts of a tool by its preset, and lists the presets after an unknown name', async () => {
    const [rule] = (await craik(['allow', '--preset', 'npm', '--all-sandboxes'])).json()
    expect(rule).toMatchObject({ preset: 'npm', sandbox_id: null })
    expect((await failing('allow', '--preset', 'nope', '--sandbox', 'parser')).hint).toContain('npm')
  })

  it.each([
    [['allow', '--sandbox', 'parser'], 'no host to allow'],
    [['allow', 'a.example.com'], '--sandbox is missing'],
    [['allow', 'a.example.com', '--sandbox', 'nobody'], 'nobody'],
    [['allow', '127.0.0.1', '--sandbox', 'parser'], 'loopback'],
    [['allow', 'a.example.com/x', '--sandbox', 'parser'], 'inside TLS'],
    [['allow', 'a.example.com', '--sandbox', 'parser', '--expires', 'soon'], '--expires'],
    [['deny', 'egr_01JCQ3V8Z0W4N5T6R7Y8K9M2PD'], 'unknown egress rule'],
    [['test', 'ftp://a.example.com', '--sandbox', 'parser'], 'is not a URL or host'],
  ])('refuses %j: %s', async (argv, why) => expect((await failing(...argv)).message).toContain(why))

  it('tests a request and names the deciding rule, without writing a receipt', async () => {
    const [rule] = (await craik(['allow', 'a.example.com', '--sandbox', 'parser'])).json()
    await craik(['allow', 'store.example.com:80/bucket', '--method', 'get', '--sandbox', 'parser'])
    const before = (await scene.store.bodies()).length
    const trial = (url: string, ...more: string[]) =>
      craik(['test', url, '--sandbox', 'parser', '--no-lookup', ...more])
    expect((await trial('https://a.example.com/any')).json()).toMatchObject({
      effect: 'allow',
      rule_id: rule.id,
    })
    const other = await trial('https://b.example.com')
    expect(other.json()).toMatchObject({ effect: 'deny', rule: 'egress.no_rule' })
    expect(other.exitCode).toBe(ERRORS.denied.exit)
    expect((await trial('http://store.example.com/bucket/x')).json().effect).toBe('allow')
    expect((await trial('http://store.example.com/bucket/x', '--method', 'PUT')).json().effect).toBe('deny')
    expect((await trial('http://store.example.com/bucket/../x')).json().effect).toBe('deny')
    await craik(['allow', 'auth.openai.com', '--sandbox', 'parser'])
    expect((await trial('https://auth.openai.com')).json().rule).toBe('egress.token_endpoint')
    expect((await scene.store.bodies()).length).toBe(before + 2)
  })

  it.each([
    ['127.0.0.1:8080', 'craik sandbox forward ID PORT'],
    ['localhost', 'craik sandbox forward ID PORT'],
    ['[::1]', 'craik sandbox forward ID PORT'],
    ['169.254.169.254', 'credentials'],
    ['metadata.google.internal', 'credentials'],
    ['10.1.2.3', 'craik sandbox cp FILE ID:'],
    ['printer', 'printer.example.com'],
    ['https://api.example.com/v1/x', 'craik egress allow api.example.com --sandbox ID'],
    ['http://api.example.com/v1', 'craik egress allow api.example.com:80/v1 --sandbox ID'],
    ['api.example.com/v1', 'craik egress allow api.example.com:80/v1 --sandbox ID'],
  ])('refuses to allow %s, and the hint names a solution: %s', async (host, hint) => {
    const error = await failing('allow', host, '--sandbox', 'parser')
    expect(error.code).toBe('usage')
    expect(error.hint).toContain(hint)
  })

  it('warns about a name of local networks, but allows it', async () => {
    const { stdout } = await craik(['allow', 'db.corp.internal', '--sandbox', 'parser'], true)
    expect(stdout).toContain('db.corp.internal is a local network name')
  })

  it('prints a hint for each denial: how to allow the request, or why nothing helps', async () => {
    await craik(['allow', 'store.example.com:80/bucket', '--method', 'get', '--sandbox', 'parser'])
    await craik(['allow', 'auth.openai.com', '--sandbox', 'parser'])
    const { added } = (await craik(['deny', 'bad.example.com', '--all-sandboxes'])).json()
    const hint = async (url: string, ...more: string[]) =>
      (await craik(['test', url, '--sandbox', 'parser', '--no-lookup', ...more])).json().hint
    const allow = 'craik egress allow'
    expect(await hint('https://b.example.com')).toBe(`allow it:  ${allow} b.example.com --sandbox parser`)
    expect(await hint('http://b.example.com/x')).toBe(`allow it:  ${allow} b.example.com:80 --sandbox parser`)
    expect(await hint('https://store.example.com/bucket/x')).toMatch(
      /^egr_\w+ allows store\.example\.com:80\/bucket \(GET\), over plain HTTP only: .*store\.example\.com --sandbox/,
    )
    expect(await hint('http://store.example.com:8080/bucket')).toMatch(
      /this port: .*example\.com:8080 --sandbox/,
    )
    expect(await hint('http://store.example.com/bucket', '--method', 'PUT')).toMatch(
      /this method: .*:80\/bucket --method PUT --sandbox parser$/,
    )
    expect(await hint('http://store.example.com/else')).toMatch(
      /this path: .*:80\/else --method GET --sandbox/,
    )
    expect(await hint('http://127.0.0.1:8080/')).toContain('the sandbox itself')
    expect(await hint('http://169.254.169.254/latest')).toContain('credentials')
    expect(await hint('http://database:5432/')).toBe('use the full name:  database.example.com')
    expect(await hint('https://auth.openai.com')).toContain('leave it blocked')
    expect(await hint('https://bad.example.com')).toBe(`remove the block:  craik egress deny ${added.id}`)
    const shown = await craik(['test', 'b.example.com', '--sandbox', 'parser', '--no-lookup'], true)
    expect(shown.stdout).toMatch(/would be denied by egress\.no_rule\n {4}allow it: {2}craik egress allow/)
  })

  it('denies the token endpoints that the config names', async () => {
    mkdirSync(scene.store.home.config, { recursive: true })
    writeFileSync(
      join(scene.store.home.config, 'accounts.yaml'),
      'claude-code:\n  token_url: https://login.example.com/token\n',
    )
    await craik(['allow', 'login.example.com', 'claude.ai', '--sandbox', 'parser'])
    const rule = async (host: string) =>
      (await craik(['test', host, '--sandbox', 'parser', '--no-lookup'])).json().rule
    expect(await rule('login.example.com')).toBe('egress.token_endpoint')
    expect(await rule('claude.ai')).not.toBe('egress.token_endpoint')
  })

  it('removes the rule of a host that nothing else allows, and blocks a host that a wildcard allows', async () => {
    await craik(['allow', 'a.example.com', '*.example.org', '--sandbox', 'parser'])
    const removed = (await craik(['deny', 'a.example.com', '--sandbox', 'parser'])).json()
    expect([removed.removed.length, removed.added]).toEqual([1, undefined])
    const blocked = (await craik(['deny', 'b.example.org', '--sandbox', 'parser'])).json()
    expect(blocked).toMatchObject({ removed: [], added: { effect: 'deny', hosts: ['b.example.org'] } })
    const effect = async (host: string) =>
      (await craik(['test', host, '--sandbox', 'parser', '--no-lookup'])).json().effect
    expect([await effect('b.example.org'), await effect('c.example.org')]).toEqual(['deny', 'allow'])
    await craik(['allow', 'b.example.org', '--sandbox', 'parser'])
    expect(await effect('b.example.org')).toBe('allow')
  })

  it('blocks a host that no rule allows, even if a later wildcard matches it', async () => {
    const { added } = (await craik(['deny', 'bad.example.org', '--sandbox', 'parser'])).json()
    expect(added).toMatchObject({ effect: 'deny', hosts: ['bad.example.org'] })
    await craik(['allow', '*.example.org', '--sandbox', 'parser'])
    const tried = await craik(['test', 'bad.example.org', '--sandbox', 'parser', '--no-lookup'])
    expect(tried.json()).toMatchObject({ effect: 'deny', rule: 'egress.blocked' })
  })

  it('warns if a block for all sandboxes overrides a rule for one sandbox', async () => {
    const { added } = (await craik(['deny', 'a.example.com', '--all-sandboxes'])).json()
    expect((await craik(['allow', 'a.example.com', '--sandbox', 'parser'], true)).stdout).toContain(
      `a.example.com is still blocked by ${added.id}`,
    )
    await craik(['deny', added.id])
    expect((await craik(['test', 'a.example.com', '--sandbox', 'parser', '--no-lookup'])).json().effect).toBe(
      'allow',
    )
  })

  it('reports rules that were changed outside Craik, and lists the others', async () => {
    await craik(['allow', 'a.example.com', 'b.example.com', '--sandbox', 'parser'])
    scene.store.database.exec(
      `UPDATE egress_rules SET document = replace(document, 'b.example.com', 'c.example.com')`,
    )
    const { stdout } = await craik(['list'], true)
    expect(stdout).toContain('a.example.com')
    expect(stdout).toContain('1 rule was changed outside Craik')
    expect((await craik(['test', 'a.example.com', '--sandbox', 'parser'])).json().rule).toBe(
      'egress.damaged_rules',
    )
  })

  it('prints each event when it happens', async () => {
    const watching = craik(['watch', '--sandbox', 'parser'], true)
    await new Promise((resolve) => setTimeout(resolve, 50))
    await craik(['allow', 'a.example.com', '--sandbox', 'parser'])
    expect((await watching).stdout).toContain('rule: allow')
  })
})
