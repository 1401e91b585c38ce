import { existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Issuer, startIssuer } from '../../../test/accounts/issuer.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import type { TestMachine } from '../accounts.fixture.ts'
import { brokerOf, CLAUDE, HOUR_MS, machineOf } from '../broker.fixture.ts'
import type { BrokerOptions } from '../broker.ts'
import type { Probe } from '../probe-result.ts'
import { claudeCodeProbe } from '../probes/claude-code.ts'
import { refreshFile, tokenDigest, writeJournal } from './journal.ts'

let issuer: Issuer
beforeAll(async () => {
  issuer = await startIssuer()
})
afterAll(() => issuer[Symbol.asyncDispose]())
beforeEach(() => {
  issuer.broken = undefined
  issuer.delayMs = 0
})

const here = (variables?: Readonly<Record<string, string>>) => machineOf(issuer, variables)
const brokerAt = (machine: TestMachine, more?: Partial<BrokerOptions>) => brokerOf(issuer, machine, more)

describe('a login during a refresh', () => {
  it('is adopted when its own program used the token up and has written a new one', async () => {
    using machine = here()
    const pair = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + 1_000))
    const theirs = issuer.login()
    issuer.broken = { status: 400, text: '{"error":"invalid_grant"}' }
    const pending = brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    await expect.poll(() => issuer.refreshes.at(-1)?.fields.refresh_token).toBe(pair.refresh_token)
    machine.write(CLAUDE.file, CLAUDE.write(theirs, Date.now() + HOUR_MS))
    expect((await pending).headers.authorization).toBe(`Bearer ${theirs.access_token}`)
  })

  it('is not rotated when the new token could not be written', async () => {
    using machine = here()
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
    const before = issuer.refreshes.length
    const unwritable: Probe = {
      ...claudeCodeProbe,
      async probe(hostEnvironment, until) {
        const findings = await claudeCodeProbe.probe(hostEnvironment, until)
        return findings.map((finding) =>
          'login' in finding && finding.login.kind === 'oauth'
            ? {
                ...finding,
                login: {
                  ...finding.login,
                  vault: { ...finding.login.vault, unwritable: async () => 'it is closed' },
                },
              }
            : finding,
        )
      },
    }
    await expect(
      brokerAt(machine, { probes: [unwritable] }).credential('claude-code', NEVER_ABORTED),
    ).rejects.toThrow('it is closed')
    expect(issuer.refreshes).toHaveLength(before)
  })

  it('waits for its own program’s lock, takes over a dead holder’s lock, and releases it', async () => {
    using machine = here()
    machine.write(CLAUDE.file, CLAUDE.write(issuer.login(), Date.now() - 1))
    const locks = ['.claude/.oauth_refresh.lock', '.claude.lock'].map((name) => join(machine.userHome, name))
    for (const lock of locks) mkdirSync(lock)
    const dead = new Date(Date.now() - 120_000)
    utimesSync(locks[1]!, dead, dead)
    const before = issuer.refreshes.length
    const pending = brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    await new Promise((later) => setTimeout(later, 300))
    expect(issuer.refreshes).toHaveLength(before)
    rmSync(locks[0]!, { recursive: true })
    await pending
    expect(issuer.refreshes).toHaveLength(before + 1)
    expect(locks.filter((lock) => existsSync(lock))).toEqual([])
  })

  it('gets the response that a killed process recorded, without a second request', async () => {
    using machine = here()
    const pair = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() + HOUR_MS))
    const journal = refreshFile(
      machine.home,
      'claude-code',
      `file:${join(machine.userHome, CLAUDE.file)}`,
      'json',
    )
    const answer = { access_token: 'kept-access', refresh_token: 'kept-refresh', expires_in: 3600 }
    const stored = { used: tokenDigest(pair.refresh_token), unwanted: tokenDigest(pair.access_token), answer }
    writeJournal(machine.home, journal, { ...stored, answeredAtMs: Date.now() })
    const before = issuer.refreshes.length
    const { headers } = await brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    expect(headers.authorization).toBe('Bearer kept-access')
    expect(CLAUDE.refreshToken(machine.read(CLAUDE.file))).toBe('kept-refresh')
    expect(existsSync(journal)).toBe(false)
    expect(issuer.refreshes).toHaveLength(before)
  })

  it('keeps later changes by others, and drops a recorded response for another token', async () => {
    using machine = here()
    const theirs = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(theirs, Date.now() + HOUR_MS))
    const journal = refreshFile(
      machine.home,
      'claude-code',
      `file:${join(machine.userHome, CLAUDE.file)}`,
      'json',
    )
    const answer = { access_token: 'kept-access', refresh_token: 'kept-refresh', expires_in: 3600 }
    writeJournal(machine.home, journal, { used: tokenDigest('old'), unwanted: '', answer, answeredAtMs: 1 })
    const { headers } = await brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    expect(headers.authorization).toBe(`Bearer ${theirs.access_token}`)
    expect(existsSync(journal)).toBe(false)
  })

  it('keeps the tokens that its own program wrote while the issuer was responding', async () => {
    using machine = here()
    const pair = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
    issuer.delayMs = 200
    const pending = brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    await expect.poll(() => issuer.refreshes.at(-1)?.fields.refresh_token).toBe(pair.refresh_token)
    const theirs = issuer.login()
    writeFileSync(join(machine.userHome, CLAUDE.file), CLAUDE.write(theirs, Date.now() + HOUR_MS))
    expect((await pending).headers.authorization).toBe(`Bearer ${theirs.access_token}`)
  })

  it('stays logged out when the user logs out before the response arrives', async () => {
    using machine = here()
    const pair = issuer.login()
    machine.write(CLAUDE.file, CLAUDE.write(pair, Date.now() - 1))
    issuer.delayMs = 200
    const pending = brokerAt(machine).credential('claude-code', NEVER_ABORTED)
    const refusal = expect(pending).rejects.toMatchObject({ code: 'unavailable' })
    await expect.poll(() => issuer.refreshes.at(-1)?.fields.refresh_token).toBe(pair.refresh_token)
    rmSync(join(machine.userHome, CLAUDE.file))
    await refusal
    expect(existsSync(join(machine.userHome, CLAUDE.file))).toBe(false)
  })
})
